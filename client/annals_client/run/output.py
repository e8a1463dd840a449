"""Pass the command's output through, and keep a bounded copy for the report.

Threads: one relay thread per stream calls `relay`, which calls `OutputBuffer.feed`. The recorder thread calls `take`.
Locks: `OutputBuffer._lock` protects its fields. It is never held during I/O, so a relay thread waits only for its own
stream. No other lock is taken while it is held.
"""

import fcntl
import os
import select
import struct
import termios
import threading
import time
from collections import deque
from typing import NamedTuple

from annals_client.run.process import Output

READ_BYTES = 256 * 1024
MAX_BUFFERED_BYTES = 1024 * 1024
MAX_BUFFERED_LINES = 10_000
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


class OutputBuffer:
    """The latest output. When the recorder is slower than the command, the oldest pieces are dropped and counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chunks: deque[Chunk] = deque()
        self._bytes = 0
        self._lines = 0
        self._lost: dict[str, int] = {}
        """By stream: number of dropped line breaks before its next chunk."""
        self._tails: dict[str, bytes] = {}
        self.has_output = threading.Event()

    def feed(self, stream: str, data: bytes) -> None:
        chunk = Chunk(stream, int(time.time()), data, data.count(b"\n"))
        with self._lock:
            self._tails[stream] = (self._tails.get(stream, b"") + data[-TAIL_BYTES:])[-TAIL_BYTES:]
            self._chunks.append(chunk)
            self._bytes += len(data)
            self._lines += chunk.lines
            while len(self._chunks) > 1 and self._is_over_limit():
                self._drop(self._chunks.popleft())
            if self._is_over_limit():
                self._drop_start(self._chunks.pop())
        self.has_output.set()

    def take(self) -> Chunk | None:
        """The oldest chunk, or None if there is none now."""
        with self._lock:
            if not self._chunks:
                self.has_output.clear()
                return None
            chunk = self._chunks.popleft()
            self._bytes -= len(chunk.data)
            self._lines -= chunk.lines
            return chunk._replace(lost=self._lost.pop(chunk.stream, None))

    def take_lost(self, time_s: int) -> list[Chunk]:
        """An empty chunk for each stream whose end was dropped. Call it after the end of all streams."""
        with self._lock:
            lost, self._lost = self._lost, {}
        return [Chunk(stream, time_s, b"", 0, count) for stream, count in lost.items()]

    def last_line(self, stream: str) -> str:
        """The last line of a stream that is not blank, or an empty string."""
        with self._lock:
            tail = self._tails.get(stream, b"")
        lines = [line for line in tail.replace(b"\r", b"\n").split(b"\n") if line.strip()]
        return lines[-1].decode("utf-8", "replace").strip() if lines else ""

    def _is_over_limit(self) -> bool:
        return self._bytes > MAX_BUFFERED_BYTES or self._lines > MAX_BUFFERED_LINES

    def _drop(self, chunk: Chunk) -> None:
        self._bytes -= len(chunk.data)
        self._lines -= chunk.lines
        self._lost[chunk.stream] = self._lost.get(chunk.stream, 0) + chunk.lines

    def _drop_start(self, chunk: Chunk) -> None:
        """Keep only the end of a chunk that has too many lines."""
        end = chunk.data[-max(len(chunk.data) * MAX_BUFFERED_LINES // (chunk.lines + 1), 1) :]
        kept = chunk._replace(data=end, lines=end.count(b"\n"))
        self._drop(chunk._replace(data=chunk.data[: len(chunk.data) - len(end)], lines=chunk.lines - kept.lines))
        self._chunks.append(kept)


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
