"""Split the chunks of a stream into lines for the report."""

import json
from collections.abc import Iterator

from annals_client.run.output import Chunk

MAX_LINE_BYTES = 4000
DROPPED = "dropped"
"""Stands for the stream in a record of dropped lines."""

Record = tuple[int, str, str | int]
"""Time in seconds, stream, and text. For `DROPPED`: the number of lines."""


class LineSplitter:
    """Splits one stream. Not thread-safe."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._partial = b""
        self._cut_bytes = 0
        self._lost: int | None = None
        """Number of lost line breaks. None unless the start of the current line is lost."""

    def split(self, chunk: Chunk) -> Iterator[Record]:
        """The lines that end in `chunk`. Consume the iterator before you pass the next chunk."""
        if chunk.lost is not None:
            self._partial, self._cut_bytes = b"", 0
            self._lost = (self._lost or 0) + chunk.lost
        start = 0
        while (end := chunk.data.find(b"\n", start)) >= 0:
            if self._lost is not None:
                yield (chunk.time_s, DROPPED, self._lost + 1)
                self._lost = None
            else:
                self._append(chunk.data[start:end])
                yield (chunk.time_s, self._stream, self._take_line())
            start = end + 1
        if self._lost is None:
            self._append(chunk.data[start:])

    def rest(self, time_s: int) -> Iterator[Record]:
        """The last line, if no line break ends it."""
        if self._lost is not None:
            yield (time_s, DROPPED, self._lost + 1)
        elif self._partial:
            yield (time_s, self._stream, self._take_line())

    def _append(self, piece: bytes) -> None:
        room = MAX_LINE_BYTES - len(self._partial)
        self._partial += piece[:room]
        self._cut_bytes += max(len(piece) - room, 0)

    def _take_line(self) -> str:
        text = self._partial.removesuffix(b"\r").decode("utf-8", "replace")
        if self._cut_bytes:
            text += f"… ({self._cut_bytes} more bytes)"
        self._partial, self._cut_bytes = b"", 0
        return text


def encode(record: Record) -> bytes:
    """One line of JSON in ASCII."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def count_lines(records: bytes) -> int:
    """The number of output lines that encoded records stand for, including those that were dropped before."""
    decoded = map(decode, records.splitlines())
    return sum(count_of(record) for record in decoded if record is not None)


def count_of(record: Record) -> int:
    return record[2] if record[1] == DROPPED and isinstance(record[2], int) else 1


def decode(line: bytes) -> Record | None:
    """The record of a line. None for a line that was not written completely."""
    try:
        time_s, stream, value = json.loads(line)
    except (ValueError, TypeError):
        return None
    return time_s, stream, value
