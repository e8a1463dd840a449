"""The files of the history: events of one server and one day, in order, zstd."""

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
from glue_jobs.transforms.commits import spans_of
from glue_jobs.transforms.events import DAY_US, EVENT, events_of

ROWS_AT_ONCE: Final = 100_000
"""So many events are a row group, as far as they are of one day …"""
GROUP_BYTES: Final = 64 << 20
"""… and unless they are as large as this before."""
BYTES_AT_ONCE: Final = 8 << 20
"""About so much text of events is in memory at once, several times over while it is taken apart."""

_DEFLATED: Final = 5
"""So much longer is what was deflated, as a rule."""


def written(storage: Storage, commits: Iterable[pa.RecordBatch], found_in: Sequence[str]) -> Iterator[str]:
    """Write the events of commits that come in order; the JSON of each file that this makes."""
    files = _Files(storage, found_in)
    for batch in commits:
        for piece in _pieces(batch):
            for server, day, part in by_server_and_day(piece):
                yield from files.to(server, day)
                files.add(part)
    yield from files.to(None, None)


class _Files:
    """One file after the other."""

    def __init__(self, storage: Storage, found_in: Sequence[str]) -> None:
        self._storage = storage
        self._found_in = found_in
        self._of: tuple[int | None, int | None] = (None, None)
        self._open: _Open | None = None

    def to(self, server: int | None, day: int | None) -> Iterator[str]:
        """Go on with the file of a server and a day; the one before is done, if it was another's."""
        if self._of == (server, day):
            return
        if self._open is not None:
            yield json.dumps(asdict(self._open.closed()))
        self._of = (server, day)
        self._open = None if server is None or day is None else _Open(self._storage, server, day)

    def add(self, commits: pa.RecordBatch) -> None:
        """These are next."""
        assert self._open is not None, "there is a file to add to"  # noqa: S101
        try:
            self._open.add(commits)
        except HistoryError as failure:
            raise _located(commits, self._found_in, failure) from failure


class _Open:
    """A file while it is written."""

    def __init__(self, storage: Storage, server: int, day: int) -> None:
        date = datetime.fromtimestamp(day * DAY_US // 1_000_000, UTC).date().isoformat()
        # Whoever tries again writes another file: the name is in no way used before.
        self._file = EventFile(server, date, f"{uuid.uuid4().hex}.parquet", 0, [], 0)
        self._sessions: list[np.ndarray] = []
        self._output: Any = storage.output(self._file.path)
        self._writer = pa.parquet.ParquetWriter(self._output, EVENT, compression="zstd", write_statistics=True)
        self._held: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0
        self._events = 0
        self._last_at = 0

    def add(self, commits: pa.RecordBatch) -> None:
        """The events of these commits are next."""
        events = events_of(commits)
        self._sessions.append(commits.column("session").to_numpy(zero_copy_only=False))
        self._last_at = int(commits.column("at")[-1].as_py())
        self._held.append(events)
        self._rows += events.num_rows
        self._bytes += events.nbytes
        if self._rows >= ROWS_AT_ONCE or self._bytes >= GROUP_BYTES:
            self._flush()

    def closed(self) -> EventFile:
        """The file, complete."""
        self._flush()
        self._writer.close()
        self._output.close()
        spans = spans_of(np.concatenate(self._sessions))
        return EventFile(self._file.server, self._file.day, self._file.name, self._events, spans, self._last_at)

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=self._rows)
        self._events += self._rows
        self._held, self._rows, self._bytes = [], 0, 0


def _located(commits: pa.RecordBatch, found_in: Sequence[str], failure: HistoryError) -> HistoryError:
    """The failure, with the first commit that has it and the file that this was found in."""
    for commit in (commits.slice(place, 1) for place in range(commits.num_rows)):
        try:
            events_of(commit)
        except HistoryError as found:
            of = commit.to_pylist()[0]
            return BrokenExport(found_in[of["file"]], f"session {of['session']} of server {of['server']}: {found}")
    return failure


def _pieces(commits: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Commits that follow each other, cut where they are enough for once."""
    if not commits.num_rows:
        return
    body, z = (pc.fill_null(pc.binary_length(commits.column(name)), 0) for name in ("body", "z"))
    size = np.cumsum(body.to_numpy().astype(np.int64) + _DEFLATED * z.to_numpy().astype(np.int64))
    cuts = np.flatnonzero(np.diff(size // BYTES_AT_ONCE)) + 1
    for begin, end in zip(np.r_[0, cuts], np.r_[cuts, len(size)], strict=True):
        yield commits.slice(begin, end - begin)


def by_server_and_day(commits: pa.RecordBatch) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Commits that follow each other in the same server and day, together."""
    servers = commits.column("server").to_numpy(zero_copy_only=False)
    days = commits.column("at").to_numpy(zero_copy_only=False) // DAY_US
    changes = np.flatnonzero((np.diff(servers) != 0) | (np.diff(days) != 0)) + 1
    for begin, end in zip(np.r_[0, changes], np.r_[changes, len(days)], strict=True):
        yield int(servers[begin]), int(days[begin]), commits.slice(begin, end - begin)
