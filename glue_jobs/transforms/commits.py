"""Commits, in Arrow batches: out of the items of exports, each of them once."""

import binascii
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.errors import BrokenExport, Conflict
from glue_jobs.exports.inflate import inflated

COMMIT: Final = "server int, session long, at long, n int, body string, z binary, file int"
"""A commit as a row: its events are in `body`, or deflated in `z`; which file it was found in."""

_NUMBERS: Final = {"server": pa.int32(), "session": pa.int64(), "at": pa.int64(), "n": pa.int32()}

LATEST_AT: Final = 2**53
"""An EventId has 53 bits."""

Spans = Sequence[tuple[int, int]]
"""Sessions, from the first to the last of each span, in order and without a touch."""


def commits_of(items: pa.StructArray, file: str, place: int = 0) -> pa.RecordBatch:
    """The commits of organizations among items; the logs below 1 are the server's own."""
    numbers = [_number(items, name, kind, file) for name, kind in _NUMBERS.items()]
    body, z = _text(items, "body", "S"), _text(items, "z", "B")
    if not pc.all(pc.xor(body.is_valid(), z.is_valid()), min_count=0).as_py():
        raise BrokenExport(file, "an item has not exactly one of the attributes body and z")
    encoded = z.cast(pa.binary()).to_pylist()
    binary = pa.array([None if one is None else _bytes(one, file) for one in encoded], pa.binary())
    at = numbers[list(_NUMBERS).index("at")]
    if not pc.all(pc.and_(pc.greater_equal(at, 0), pc.less(at, LATEST_AT)), min_count=0).as_py():
        raise BrokenExport(file, "the attribute at of an item is no EventId")
    found_in = pa.repeat(pa.scalar(place, pa.int32()), len(items))
    batch = pa.RecordBatch.from_arrays([*numbers, body, binary, found_in], [*_NUMBERS, "body", "z", "file"])
    return batch.filter(pc.greater(batch.column("server"), 0))


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the log of a server."""

    spans: Spans
    times: Mapping[int, int]
    """The `at` of some of its sessions: another log has others."""


def unknown(commits: pa.RecordBatch, known: Mapping[int, Known], file: str) -> pa.RecordBatch:
    """The commits that are not known yet; raises `Conflict` if one that is known is another."""
    servers, sessions = _numpy(commits, "server"), _numpy(commits, "session")
    is_new = np.ones(len(servers), dtype=bool)
    for server, log in known.items():
        of_server = np.flatnonzero(servers == server)
        first, last = np.array(log.spans, dtype=np.int64).reshape(-1, 2).T
        place = np.searchsorted(first, sessions[of_server], side="right") - 1
        is_new[of_server] = (place < 0) | (sessions[of_server] > last[place])
        marks = of_server[np.isin(sessions[of_server], np.fromiter(log.times, dtype=np.int64))]
        for session, at in zip(sessions[marks].tolist(), _numpy(commits, "at")[marks].tolist(), strict=True):
            if log.times[session] != at:
                raise Conflict(
                    f"{file}: session {session} of server {server} is another than the one in the history: "
                    "the export is of another log, and wants a lake of its own"
                )
    return commits.filter(pa.array(is_new))


def each_once(batches: Iterable[pa.RecordBatch], files: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Commits in the order of server and session, without those that repeat the one before."""
    before: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        joined = batch if before is None else pa.concat_batches([before, batch])
        repeats = _repeats(joined)
        _check_same(joined, repeats, files)
        fresh = joined.filter(pa.array(~repeats))
        yield fresh if before is None else fresh.slice(1)
        before = fresh.slice(fresh.num_rows - 1)


def spans_of(sessions: Iterable[int]) -> list[tuple[int, int]]:
    """The spans that hold these sessions."""
    found = np.unique(np.fromiter(sessions, dtype=np.int64))
    if not found.size:
        return []
    gaps = np.flatnonzero(np.diff(found) > 1)
    firsts, lasts = found[np.r_[0, gaps + 1]], found[np.r_[gaps, found.size - 1]]
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]


def joined_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that touch or overlap made one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _repeats(commits: pa.RecordBatch) -> np.ndarray:
    """Which rows have the number of the row before."""
    found = np.zeros(commits.num_rows, dtype=bool)
    for name in ("server", "session"):
        numbers = _numpy(commits, name)
        same = numbers[1:] == numbers[:-1]
        found[1:] = same if name == "server" else found[1:] & same
    return found


def _check_same(commits: pa.RecordBatch, repeats: np.ndarray, files: Sequence[str]) -> None:
    for place in np.flatnonzero(repeats):
        one, other = (commits.slice(at, 1).to_pylist()[0] for at in (place - 1, place))
        if _told(one) != _told(other):
            raise Conflict(
                f"{files[one['file']]} and {files[other['file']]} tell different things about session "
                f"{one['session']} of server {one['server']}: they are not of the same log"
            )


def _told(commit: dict[str, Any]) -> tuple[object, ...]:
    """What a commit says, deflated or not; as it is where that cannot be known."""
    body, z = commit["body"], commit["z"]
    try:
        text = body.encode() if body is not None else inflated(z)
    except zlib.error:
        text = z
    return commit["at"], commit["n"], text


def _number(items: pa.StructArray, name: str, kind: pa.DataType, file: str) -> pa.Array:
    text = _text(items, name, "N")
    if text.null_count:
        raise BrokenExport(file, f"an item has no attribute {name} that is a number")
    try:
        return text.cast(kind)
    except pa.ArrowInvalid as failure:
        raise BrokenExport(file, f"the attribute {name} of an item is no whole number: {failure}") from failure


def _text(items: pa.StructArray, name: str, kind: str) -> pa.Array:
    return pc.struct_field(items, [name, kind])


def _bytes(encoded: bytes, file: str) -> bytes:
    try:
        return binascii.a2b_base64(encoded, strict_mode=True)
    except binascii.Error as failure:
        raise BrokenExport(file, f"the attribute z of an item is not base64: {failure}") from failure


def _numpy(commits: pa.RecordBatch, name: str) -> np.ndarray:
    return commits.column(name).to_numpy(zero_copy_only=False)
