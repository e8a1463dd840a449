"""Writes history files: Parquet with the events of one server and day, in order."""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from glue_jobs.errors import BrokenExport, HistoryError
from glue_jobs.lake.lake import EventFile
from glue_jobs.lake.storage import Storage
from glue_jobs.transforms.commits import session_spans
from glue_jobs.transforms.events import DAY_US, EVENT, parse_events

ROWS_PER_GROUP: Final = 100_000
"""Maximum number of events in a row group."""
GROUP_BYTES: Final = 64 << 20
"""Maximum size of a row group."""
BATCH_BYTES: Final = 8 << 20
"""Approximate text of events that is parsed at once. Parsing takes several times this memory."""

_DEFLATE_RATIO: Final = 5
"""Typical ratio of inflated to deflated size."""


def write_event_files(storage: Storage, commits: Iterable[pa.RecordBatch], paths: Sequence[str]) -> Iterator[str]:
    """Write the events of sorted commits. Yields the `EventFile` of each file as JSON."""
    files = _FileSequence(storage, paths)
    for batch in commits:
        for piece in _split_by_size(batch):
            for server, day, part in split_by_server_and_day(piece):
                yield from files.switch_to(server, day)
                files.add(part)
    yield from files.switch_to(None, None)


class _FileSequence:
    """Writes one file after the other."""

    def __init__(self, storage: Storage, paths: Sequence[str]) -> None:
        self._storage = storage
        self._found_in = paths
        self._of: tuple[int | None, int | None] = (None, None)
        self._open: _OpenFile | None = None

    def switch_to(self, server: int | None, day: int | None) -> Iterator[str]:
        """Switch to the file of a server and day. Yields the previous file if that closes it."""
        if self._of == (server, day):
            return
        if self._open is not None:
            yield json.dumps(asdict(self._open.close()))
        self._of = (server, day)
        self._open = None if server is None or day is None else _OpenFile(self._storage, server, day)

    def add(self, commits: pa.RecordBatch) -> None:
        assert self._open is not None, "switch_to was not called"  # noqa: S101
        try:
            self._open.add(commits)
        except HistoryError as error:
            raise _with_location(commits, self._found_in, error) from error


class _OpenFile:
    """A file that is being written."""

    def __init__(self, storage: Storage, server: int, day: int) -> None:
        date = datetime.fromtimestamp(day * DAY_US // 1_000_000, UTC).date().isoformat()
        # A retried task writes a new file: names are never reused.
        self._file = EventFile(server, date, f"{uuid.uuid4().hex}.parquet", 0, [], 0)
        self._sessions: list[np.ndarray] = []
        self._output: Any = storage.create(self._file.path)
        self._writer = pa.parquet.ParquetWriter(self._output, EVENT, compression="zstd", write_statistics=True)
        self._held: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0
        self._events = 0
        self._last_at = 0

    def add(self, commits: pa.RecordBatch) -> None:
        events = parse_events(commits)
        self._sessions.append(commits.column("session").to_numpy(zero_copy_only=False))
        self._last_at = int(commits.column("at")[-1].as_py())
        self._held.append(events)
        self._rows += events.num_rows
        self._bytes += events.nbytes
        if self._rows >= ROWS_PER_GROUP or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> EventFile:
        """Finish the file."""
        self._flush()
        self._writer.close()
        self._output.close()
        spans = session_spans(np.concatenate(self._sessions))
        return EventFile(self._file.server, self._file.day, self._file.name, self._events, spans, self._last_at)

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=self._rows)
        self._events += self._rows
        self._held, self._rows, self._bytes = [], 0, 0


def _with_location(commits: pa.RecordBatch, paths: Sequence[str], error: HistoryError) -> HistoryError:
    """The error with the first invalid commit and its export file."""
    for commit in (commits.slice(place, 1) for place in range(commits.num_rows)):
        try:
            parse_events(commit)
        except HistoryError as commit_error:
            fields = commit.to_pylist()[0]
            return BrokenExport(
                paths[fields["file"]], f"session {fields['session']} of server {fields['server']}: {commit_error}"
            )
    return error


def _split_by_size(commits: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch where its text exceeds `BATCH_BYTES`."""
    if not commits.num_rows:
        return
    body, z = (pc.fill_null(pc.binary_length(commits.column(name)), 0) for name in ("body", "z"))
    size = np.cumsum(body.to_numpy().astype(np.int64) + _DEFLATE_RATIO * z.to_numpy().astype(np.int64))
    cuts = np.flatnonzero(np.diff(size // BATCH_BYTES)) + 1
    for begin, end in zip(np.r_[0, cuts], np.r_[cuts, len(size)], strict=True):
        yield commits.slice(begin, end - begin)


def split_by_server_and_day(commits: pa.RecordBatch) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Split a batch by server and day."""
    servers = commits.column("server").to_numpy(zero_copy_only=False)
    days = commits.column("at").to_numpy(zero_copy_only=False) // DAY_US
    changes = np.flatnonzero((np.diff(servers) != 0) | (np.diff(days) != 0)) + 1
    for begin, end in zip(np.r_[0, changes], np.r_[changes, len(days)], strict=True):
        yield int(servers[begin]), int(days[begin]), commits.slice(begin, end - begin)
