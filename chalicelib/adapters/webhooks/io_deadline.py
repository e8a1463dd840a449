"""A deadline and a size limit for a whole conversation with a server, however many reads it takes."""

import io
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Deadline:
    """A point in time `seconds` from now. A single wait until then takes at most `step_s`."""

    def __init__(self, seconds: float, step_s: float) -> None:
        self._end = time.monotonic() + seconds
        self._step_s = step_s

    def remaining_s(self) -> float:
        """Timeout for the next wait. Raises `TimeoutError` after the deadline."""
        remaining_s = self._end - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError("timed out")
        return min(remaining_s, self._step_s)


def open_reader(connection: socket.socket, deadline: Deadline, max_bytes: int) -> io.BufferedReader:
    """A reader that raises `TimeoutError` after the deadline, and `OSError` after `max_bytes`."""
    return io.BufferedReader(_DeadlineReader(connection, deadline, max_bytes))


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket with a new timeout for each read."""

    def __init__(self, connection: socket.socket, deadline: Deadline, max_bytes: int) -> None:
        super().__init__()
        self._connection = connection
        self._deadline = deadline
        self._remaining_bytes = max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        if self._remaining_bytes <= 0:
            raise OSError("the response is too long")
        self._connection.settimeout(self._deadline.remaining_s())
        count = self._connection.recv_into(buffer)
        self._remaining_bytes -= count
        return count
