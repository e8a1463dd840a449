"""Limits for a whole conversation, however many steps a server makes of it and however much it says."""

import io
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Deadline:
    """`seconds` from now, with at most `step_s` for each wait until then."""

    def __init__(self, seconds: float, step_s: float) -> None:
        self._end = time.monotonic() + seconds
        self._step_s = step_s

    def left_s(self) -> float:
        """How long the next step may take; TimeoutError if the time is over."""
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        return min(left_s, self._step_s)


def reader(connection: socket.socket, deadline: Deadline, most_bytes: int) -> io.BufferedReader:
    """What `connection` sends until the deadline, also if it comes byte by byte; OSError after `most_bytes`."""
    return io.BufferedReader(_Received(connection, deadline, most_bytes))


class _Received(io.RawIOBase):
    """The bytes that a socket receives; each wait is measured anew."""

    def __init__(self, connection: socket.socket, deadline: Deadline, most_bytes: int) -> None:
        super().__init__()
        self._connection = connection
        self._deadline = deadline
        self._left = most_bytes

    def readable(self) -> bool:
        """Yes: for that it is here."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Wait for the next bytes."""
        if self._left <= 0:
            raise OSError("the answer is too long")
        self._connection.settimeout(self._deadline.left_s())
        count = self._connection.recv_into(buffer)
        self._left -= count
        return count
