"""Pass the command's output through, and keep a bounded copy for the report.

Threads: one relay thread per stream calls `relay`, which calls `OutputBuffer.feed`. The recorder thread calls `take`.
Locks: `OutputBuffer._lock` protects its fields. It is never held during I/O, so a relay thread waits only for its own
stream. No other lock is taken while it is held.
"""

import contextlib
import fcntl
import os
import select
import struct
import termios
import threading
import time
from collections import deque
from itertools import count
from typing import NamedTuple

from annals_client.run.process import Output

READ_BYTES = 256 * 1024
MAX_BUFFERED_BYTES = 1024 * 1024
MAX_BUFFERED_LINES = 10_000
"""Limits per stream."""
TAIL_BYTES = 8 * 1024
"""How much of the end of a stream is kept for the message of the report."""


class Chunk(NamedTuple):
    """A piece of one stream, which may begin and end within a line."""

    stream: str
    time_s: int
    data: bytes
    lines: int
    """Number of line breaks in `data`."""
    lost: int | None = None
    """Number of line breaks that are missing before this piece. None: it continues the previous piece."""


class _Stream:
    """The latest chunks of one stream, with their places in the order of all chunks."""

    def __init__(self) -> None:
        self.chunks: deque[tuple[int, Chunk]] = deque()
        self.tail = b""
        self._bytes = 0
        self._lines = 0
        self._lost: int | None = None
        """Number of dropped line breaks before the first chunk."""

    def append(self, place: int, chunk: Chunk) -> None:
        self.tail = (self.tail + chunk.data[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._push(place, chunk)
        while len(self.chunks) > 1 and self._is_over_limit():
            self._drop(self._pop()[1])
        if self._is_over_limit():
            self._drop_start()

    def take(self) -> Chunk:
        chunk = self._pop()[1]._replace(lost=self._lost)
        self._lost = None
        return chunk

    def _is_over_limit(self) -> bool:
        return self._bytes > MAX_BUFFERED_BYTES or self._lines > MAX_BUFFERED_LINES

    def _push(self, place: int, chunk: Chunk) -> None:
        self.chunks.append((place, chunk))
        self._bytes += len(chunk.data)
        self._lines += chunk.lines

    def _pop(self) -> tuple[int, Chunk]:
        place, chunk = self.chunks.popleft()
        self._bytes -= len(chunk.data)
        self._lines -= chunk.lines
        return place, chunk

    def _drop(self, chunk: Chunk) -> None:
        self._lost = (self._lost or 0) + chunk.lines

    def _drop_start(self) -> None:
        """Keep only the end of a chunk that has too many lines."""
        place, chunk = self._pop()
        end = chunk.data[-max(len(chunk.data) * MAX_BUFFERED_LINES // (chunk.lines + 1), 1) :]
        kept = chunk._replace(data=end, lines=end.count(b"\n"))
        self._drop(chunk._replace(lines=chunk.lines - kept.lines))
        self._push(place, kept)


class OutputBuffer:
    """The latest output. If the recorder is slower than the command, the oldest pieces of a stream are dropped.

    Each stream has its own limits, so that error messages are kept beside a chatty standard output.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, _Stream] = {}
        self._places = count()
        self.has_output = threading.Event()

    def feed(self, stream: str, data: bytes) -> None:
        chunk = Chunk(stream, int(time.time()), data, data.count(b"\n"))
        with self._lock:
            self._streams.setdefault(stream, _Stream()).append(next(self._places), chunk)
        self.has_output.set()

    def take(self) -> Chunk | None:
        """The oldest chunk, or None if the buffer is empty."""
        with self._lock:
            filled = [stream for stream in self._streams.values() if stream.chunks]
            if not filled:
                self.has_output.clear()
                return None
            return min(filled, key=lambda stream: stream.chunks[0][0]).take()

    def last_line(self, stream: str) -> str:
        """The last line of a stream that is not blank, or an empty string."""
        with self._lock:
            tail = self._streams[stream].tail if stream in self._streams else b""
        lines = [line for line in tail.replace(b"\r", b"\n").split(b"\n") if line.strip()]
        return lines[-1].decode("utf-8", "replace").strip() if lines else ""


def relay(output: Output, buffer: OutputBuffer, stop: int) -> None:
    """Copy a stream until its end.

    `stop` becomes readable when the command has ended. The stream may then still be open in a background process of the
    command. The bytes that are in the pipe at that time are copied, and later ones are not.
    """
    poller = select.poll()
    poller.register(output.source, select.POLLIN)
    poller.register(stop, select.POLLIN)
    remaining: int | None = None
    while remaining is None or remaining > 0:
        if remaining is None and stop in [ready for ready, _ in poller.poll()]:
            remaining = _unread_bytes(output.source)
            continue
        data = os.read(output.source, READ_BYTES if remaining is None else min(READ_BYTES, remaining))
        if not data or not _write(output.target, data):
            break
        with contextlib.suppress(Exception):  # A failure of the report must not block the command.
            buffer.feed(output.name, data)
        remaining = None if remaining is None else remaining - len(data)
    # The command gets SIGPIPE if it writes more, as if it wrote to our reader directly.
    os.close(output.source)


def _write(target: int, data: bytes) -> bool:
    """Write all of `data`. False if the reader has closed the stream."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            select.select([], [target], [])
        except BrokenPipeError:
            return False
        except OSError:  # For example a full disk. The command must not stop, and the report is still complete.
            return True
    return True


def _unread_bytes(pipe: int) -> int:
    count: int = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]
    return count
