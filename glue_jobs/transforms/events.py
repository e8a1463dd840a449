"""Events, in Arrow batches: out of commits, one row each.

A commit's body is a JSON array with one event a line, each `{"type":…,"key":…,"sourceTimestamp":…,"payload":…}` in
this order. So the payload is cut out as it is, and only what stands before it is parsed: that halves the work.
"""

import zlib
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.errors import HistoryError
from glue_jobs.exports import json_lines
from glue_jobs.exports.inflate import inflated

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
"""An event as the history has it; its server and its day are the directory."""

DAY_US: Final = 86_400_000_000

_HEAD: Final = pa.schema([("type", pa.list_(pa.string())), ("key", pa.string()), ("sourceTimestamp", pa.string())])
_PAYLOAD: Final = ',"payload":'
"""A quote within a string is escaped, so this is found in no key and no subtype."""
_END: Final = "}\n"


def events_of(commits: pa.RecordBatch) -> pa.Table:
    """The events of commits, in order."""
    counts, at = _numbers(commits, "n"), _numbers(commits, "at")
    text = _lines(commits, counts)
    lines = _Lines(text, int(counts.sum()))
    head, payloads = lines.heads(), lines.payloads()
    # The events of commit i stand from first[i] on.
    first = np.repeat(np.cumsum(counts) - counts, counts)
    place = np.arange(len(first)) - first
    times = np.repeat(at, counts)
    columns = [
        pa.array(np.repeat(_numbers(commits, "session"), counts)),
        pa.array((place + 1).astype(np.int32)),
        pa.array(times + place),
        pa.array(times).cast(EVENT.field("at").type),
        head["type"].combine_chunks(),
        head["key"].combine_chunks(),
        _times(head["sourceTimestamp"].combine_chunks()),
        payloads,
    ]
    return pa.Table.from_arrays(columns, schema=EVENT)


class _Lines:
    """The lines of events, and how long the four parts of each are: head, name of the payload, payload, end."""

    def __init__(self, text: bytes, count: int) -> None:
        self._bytes = np.frombuffer(text, dtype=np.uint8)
        offsets = np.zeros(count + 1, dtype=np.int32)
        offsets[1:] = np.flatnonzero(self._bytes == ord("\n")) + 1
        head = pc.find_substring(_checked(_strings(offsets, text)), _PAYLOAD).to_numpy(zero_copy_only=False)
        if (head < 0).any():
            line = int(np.flatnonzero(head < 0)[0])
            shown = text[offsets[line] : offsets[line + 1]].decode(errors="replace").strip()
            raise HistoryError(f"an event has no payload member: {shown[:200]}")
        fixed = np.full(count, len(_PAYLOAD)), np.full(count, len(_END))
        self._lengths = np.column_stack((head, fixed[0], np.diff(offsets) - head - fixed[0] - fixed[1], fixed[1]))

    def heads(self) -> pa.Table:
        """What stands before the payload, parsed."""
        text = self._kept(head=True, payload=False, end=True)
        try:
            heads = json_lines.parsed(text, _HEAD, "error")
        except pa.ArrowInvalid as failure:
            raise HistoryError(f"an event is not as events are: {failure}") from failure
        types = heads["type"].combine_chunks()
        if len(heads) != len(self._lengths) or types.null_count or types.flatten().null_count:
            raise HistoryError("an event is not as events are: it has no type, or is more than one")
        return heads

    def payloads(self) -> pa.Array:
        """The text of each payload; nothing for null."""
        offsets = np.zeros(len(self._lengths) + 1, dtype=np.int32)
        np.cumsum(self._lengths[:, 2], out=offsets[1:])
        found = _strings(offsets, self._kept(head=False, payload=True, end=False))
        is_null = pc.equal(found, "null")
        is_object = pc.and_(pc.starts_with(found, "{"), pc.ends_with(found, "}"))
        if not pc.all(pc.or_(is_null, is_object)).as_py():
            raise HistoryError("the payload of an event is neither null nor an object")
        return pc.if_else(is_null, pa.scalar(None, pa.string()), found)

    def _kept(self, head: bool, payload: bool, end: bool) -> bytes:
        """The text of all lines without the parts that are not wanted."""
        wanted = np.tile([head, False, payload, end], len(self._lengths))
        return bytes(self._bytes[np.repeat(wanted, self._lengths.ravel())])


def _lines(commits: pa.RecordBatch, counts: np.ndarray) -> bytes:
    """The events of all commits, each with a newline after it."""
    bodies = []
    for body, z, count in zip(
        commits.column("body").to_pylist(),
        commits.column("z").to_pylist(),
        counts.tolist(),
        strict=True,
    ):
        try:
            text = inflated(z) if body is None else body.encode()
        except zlib.error as failure:
            raise HistoryError(f"it cannot be inflated: {failure}") from failure
        lines = {text.count(b"\n") + 1, text.count(b"},\n{") + 1}
        if lines != {count} or not (text.startswith(b"[{") and text.endswith(b"}]")):
            raise HistoryError(f"it is not an array of {count} events, one a line")
        bodies.append(text[1:-1])
    return b",\n".join([*bodies, b""]).replace(b",\n", b"\n")


def _checked(lines: pa.StringArray) -> pa.StringArray:
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid as failure:
        raise HistoryError(f"it is not text: {failure}") from failure
    return lines


def _times(text: pa.Array) -> pa.Array:
    kind = EVENT.field("source_timestamp").type
    if text.null_count == len(text):
        return pa.nulls(len(text), kind)
    try:
        return text.cast(kind)
    except pa.ArrowInvalid as failure:
        raise HistoryError(f"the sourceTimestamp of an event is no time: {failure}") from failure


def _numbers(commits: pa.RecordBatch, name: str) -> np.ndarray:
    return commits.column(name).to_numpy(zero_copy_only=False)


def _strings(offsets: np.ndarray, text: bytes) -> pa.StringArray:
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text))
