"""Parses the events of commits into Arrow tables, one row per event.

A commit's body is a JSON array with one event per line: `{"type":…,"key":…,"sourceTimestamp":…,"payload":…}`, in this
order. The payload is copied as text, and only the fields before it are parsed, which halves the work. Some events have
`"tags":[…]` behind the payload. The history does not contain them.
"""

import zlib
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.errors import HistoryError
from glue_jobs.exports.reader import inflate_body, parse_json_lines

EVENT: Final = pa.schema(
    [
        ("session", pa.int64()),
        ("instance", pa.int32()),
        ("event_id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("type", pa.list_(pa.string())),
        ("key", pa.string()),
        ("source_timestamp", pa.timestamp("us", "UTC")),
        ("payload", pa.string()),
    ]
)
"""An event in the history. Server and day are in the path."""

DAY_US: Final = 86_400_000_000

_HEAD: Final = pa.schema([("type", pa.list_(pa.string())), ("key", pa.string()), ("sourceTimestamp", pa.string())])
_PAYLOAD: Final = ',"payload":'
"""Quotes in strings are escaped, so this cannot occur in a key or subtype."""
_TAGS: Final = b',"tags":['
"""The same holds for tags, so the last occurrence in a line that ends with `]}` begins the tags."""
_END: Final = "}\n"


def parse_events(commits: pa.RecordBatch) -> pa.Table:
    counts, at = _numbers(commits, "n"), _numbers(commits, "at")
    text = _lines(commits, counts)
    lines = _Lines(text, int(counts.sum()))
    head, payloads = lines.heads(), lines.payloads()
    # The events of commit i start at first[i].
    first = np.repeat(np.cumsum(counts) - counts, counts)
    index = np.arange(len(first)) - first
    times = np.repeat(at, counts)
    columns = [
        pa.array(np.repeat(_numbers(commits, "session"), counts)),
        pa.array((index + 1).astype(np.int32)),
        pa.array(times + index),
        pa.array(times).cast(EVENT.field("at").type),
        head["type"].combine_chunks(),
        head["key"].combine_chunks(),
        _times(head["sourceTimestamp"].combine_chunks()),
        payloads,
    ]
    return pa.Table.from_arrays(columns, schema=EVENT)


class _Lines:
    """Lines with one event each, and the lengths of their five parts: head, payload name, payload, tags, end."""

    def __init__(self, text: bytes, count: int) -> None:
        self._bytes = np.frombuffer(text, dtype=np.uint8)
        offsets = np.zeros(count + 1, dtype=np.int32)
        offsets[1:] = np.flatnonzero(self._bytes == ord("\n")) + 1
        head = pc.find_substring(_check_utf8(_strings(offsets, text)), _PAYLOAD).to_numpy(zero_copy_only=False)
        if (head < 0).any():
            line = int(np.flatnonzero(head < 0)[0])
            shown = text[offsets[line] : offsets[line + 1]].decode(errors="replace").strip()
            raise HistoryError(f"an event has no payload: {shown[:200]}")
        name, end = np.full(count, len(_PAYLOAD)), np.full(count, len(_END))
        tags = self._tags_lengths(text, offsets[:-1] + head + name, offsets[1:] - end)
        self._lengths = np.column_stack((head, name, np.diff(offsets) - head - name - tags - end, tags, end))

    def heads(self) -> pa.Table:
        """The parsed fields before the payload."""
        text = self._select_parts(head=True, payload=False, end=True)
        try:
            heads = parse_json_lines(text, _HEAD, "error")
        except pa.ArrowInvalid as error:
            raise HistoryError(f"an event is invalid: {error}") from error
        types = heads["type"].combine_chunks()
        if len(heads) != len(self._lengths) or types.null_count or types.flatten().null_count:
            raise HistoryError("an event is invalid: it has no type, or its line has several events")
        return heads

    def payloads(self) -> pa.Array:
        """The text of each payload. Null for a JSON null."""
        offsets = np.zeros(len(self._lengths) + 1, dtype=np.int32)
        np.cumsum(self._lengths[:, 2], out=offsets[1:])
        texts = _strings(offsets, self._select_parts(head=False, payload=True, end=False))
        is_null = pc.equal(texts, "null")
        is_object = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
        if not pc.all(pc.or_(is_null, is_object)).as_py():
            raise HistoryError("the payload of an event is neither null nor an object")
        return pc.if_else(is_null, pa.scalar(None, pa.string()), texts)

    def _tags_lengths(self, text: bytes, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The length of the tags in each line, between the start of its payload and its end."""
        lengths = np.zeros(len(starts), dtype=starts.dtype)
        for line in np.flatnonzero(self._bytes[ends - 1] == ord("]")):
            found = text.rfind(_TAGS, starts[line], ends[line])
            lengths[line] = ends[line] - found if found >= 0 else 0
        return lengths

    def _select_parts(self, head: bool, payload: bool, end: bool) -> bytes:
        """The selected parts of all lines."""
        is_selected = np.tile([head, False, payload, False, end], len(self._lengths))
        return bytes(self._bytes[np.repeat(is_selected, self._lengths.ravel())])


def _lines(commits: pa.RecordBatch, counts: np.ndarray) -> bytes:
    """The events of all commits, each followed by a newline."""
    bodies = []
    for body, z, count in zip(
        commits.column("body").to_pylist(),
        commits.column("z").to_pylist(),
        counts.tolist(),
        strict=True,
    ):
        try:
            text = inflate_body(z) if body is None else body.encode()
        except zlib.error as error:
            raise HistoryError(f"the body cannot be inflated: {error}") from error
        lines = {text.count(b"\n") + 1, text.count(b"},\n{") + 1}
        if lines != {count} or not (text.startswith(b"[{") and text.endswith(b"}]")):
            raise HistoryError(f"the body is not an array of {count} events, one per line")
        bodies.append(text[1:-1])
    return b",\n".join([*bodies, b""]).replace(b",\n", b"\n")


def _check_utf8(lines: pa.StringArray) -> pa.StringArray:
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid as error:
        raise HistoryError(f"the body is not valid UTF-8: {error}") from error
    return lines


def _times(text: pa.Array) -> pa.Array:
    kind = EVENT.field("source_timestamp").type
    if text.null_count == len(text):
        return pa.nulls(len(text), kind)
    try:
        return text.cast(kind)
    except pa.ArrowInvalid as error:
        raise HistoryError(f"the sourceTimestamp of an event is not a valid time: {error}") from error


def _numbers(commits: pa.RecordBatch, name: str) -> np.ndarray:
    return commits.column(name).to_numpy(zero_copy_only=False)


def _strings(offsets: np.ndarray, text: bytes) -> pa.StringArray:
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text))
