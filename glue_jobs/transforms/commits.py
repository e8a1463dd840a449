"""Parses commits from export items, and removes duplicates."""

import binascii
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.errors import BrokenExport, Conflict
from glue_jobs.exports.commit_items import single_commits
from glue_jobs.exports.reader import inflate_body

COMMIT: Final = "server int, session long, at long, n int, body string, z binary, file int"
"""A commit as a row. Its events are in `body`, or deflated in `z`. `file` is the index of its export file."""

_NUMBERS: Final = {"server": pa.int32(), "session": pa.int64(), "at": pa.int64(), "n": pa.int32()}

MAX_EVENT_ID: Final = 2**53
"""EventIds have 53 bits."""

Spans = Sequence[tuple[int, int]]
"""Ranges of sessions with both ends included, sorted, neither overlapping nor adjacent."""


def parse_commits(items: pa.StructArray, file: str, file_index: int = 0) -> pa.RecordBatch:
    """The commits of organizations. Logs below 1 are internal and skipped."""
    items = single_commits(items, file)
    numbers = [_number(items, name, kind, file) for name, kind in _NUMBERS.items()]
    body, z = _text(items, "body", "S"), _text(items, "z", "B")
    if not pc.all(pc.xor(body.is_valid(), z.is_valid()), min_count=0).as_py():
        raise BrokenExport(file, "an item must have either the attribute body or z")
    encoded = z.cast(pa.binary()).to_pylist()
    binary = pa.array([None if text is None else _bytes(text, file) for text in encoded], pa.binary())
    at = numbers[list(_NUMBERS).index("at")]
    if not pc.all(pc.and_(pc.greater_equal(at, 0), pc.less(at, MAX_EVENT_ID)), min_count=0).as_py():
        raise BrokenExport(file, "the attribute at of an item is not a valid EventId")
    file_indices = pa.repeat(pa.scalar(file_index, pa.int32()), len(items))
    batch = pa.RecordBatch.from_arrays([*numbers, body, binary, file_indices], [*_NUMBERS, "body", "z", "file"])
    return batch.filter(pc.greater(batch.column("server"), 0))


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """The loaded sessions of a server's log."""

    spans: Spans
    times: Mapping[int, int]
    """The `at` of some sessions, to detect an export of a different log."""


def drop_loaded(commits: pa.RecordBatch, loaded: Mapping[int, LoadedLog], file: str) -> pa.RecordBatch:
    """Drop commits that are loaded already. Raises `Conflict` if a loaded session has another time."""
    servers, sessions = _numpy(commits, "server"), _numpy(commits, "session")
    is_new = np.ones(len(servers), dtype=bool)
    for server, log in loaded.items():
        of_server = np.flatnonzero(servers == server)
        first, last = np.array(log.spans, dtype=np.int64).reshape(-1, 2).T
        place = np.searchsorted(first, sessions[of_server], side="right") - 1
        is_new[of_server] = (place < 0) | (sessions[of_server] > last[place])
        marks = of_server[np.isin(sessions[of_server], np.fromiter(log.times, dtype=np.int64))]
        for session, at in zip(sessions[marks].tolist(), _numpy(commits, "at")[marks].tolist(), strict=True):
            if log.times[session] != at:
                raise Conflict(
                    f"{file}: session {session} of server {server} differs from the one in the history: "
                    "the export is of another log and needs a separate lake"
                )
    return commits.filter(pa.array(is_new))


def drop_duplicates(batches: Iterable[pa.RecordBatch], files: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Drop commits that repeat the one before. Batches must be sorted by server and session. Raises `Conflict`."""
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


def session_spans(sessions: Iterable[int]) -> list[tuple[int, int]]:
    unique = np.unique(np.fromiter(sessions, dtype=np.int64))
    if not unique.size:
        return []
    gaps = np.flatnonzero(np.diff(unique) > 1)
    firsts, lasts = unique[np.r_[0, gaps + 1]], unique[np.r_[gaps, unique.size - 1]]
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans, and merge those that overlap or are adjacent."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _repeats(commits: pa.RecordBatch) -> np.ndarray:
    """Whether each row has the server and session of the row before."""
    repeats = np.zeros(commits.num_rows, dtype=bool)
    for name in ("server", "session"):
        numbers = _numpy(commits, name)
        same = numbers[1:] == numbers[:-1]
        repeats[1:] = same if name == "server" else repeats[1:] & same
    return repeats


def _check_same(commits: pa.RecordBatch, repeats: np.ndarray, files: Sequence[str]) -> None:
    for place in np.flatnonzero(repeats):
        first, second = (commits.slice(at, 1).to_pylist()[0] for at in (place - 1, place))
        if _content(first) != _content(second):
            raise Conflict(
                f"{files[first['file']]} and {files[second['file']]} have different content for session "
                f"{first['session']} of server {first['server']}: they are exports of different logs"
            )


def _content(commit: dict[str, Any]) -> tuple[object, ...]:
    """The content of a commit, inflated if possible."""
    body, z = commit["body"], commit["z"]
    try:
        text = body.encode() if body is not None else inflate_body(z)
    except zlib.error:
        text = z
    return commit["at"], commit["n"], text


def _number(items: pa.StructArray, name: str, kind: pa.DataType, file: str) -> pa.Array:
    text = _text(items, name, "N")
    if text.null_count:
        raise BrokenExport(file, f"an item has no number in the attribute {name}")
    try:
        return text.cast(kind)
    except pa.ArrowInvalid as error:
        raise BrokenExport(file, f"the attribute {name} of an item is not an integer: {error}") from error


def _text(items: pa.StructArray, name: str, kind: str) -> pa.Array:
    return pc.struct_field(items, [name, kind])


def _bytes(encoded: bytes, file: str) -> bytes:
    try:
        return binascii.a2b_base64(encoded, strict_mode=True)
    except binascii.Error as error:
        raise BrokenExport(file, f"the attribute z of an item is not base64: {error}") from error


def _numpy(commits: pa.RecordBatch, name: str) -> np.ndarray:
    return commits.column(name).to_numpy(zero_copy_only=False)
