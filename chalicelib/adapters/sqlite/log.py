"""The log on SQLite."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

import apsw

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.errors import LogBroken, SessionTaken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import RECEIPT_TTL_S, Receipt
from chalicelib.domain.log.commit import Commit

MAX_SESSIONS = 2**40
"""Number of sessions per server in the `place` column."""
MAX_PAGE_COMMITS = 64
FIRST_PAGE_COMMITS = 8
TARGET_PAGE_BYTES = 256 * 1024
"""Pages are small at first and stay small if commits are large, because most readers need only a few."""
MAX_DELETED_COMMITS = 500
MAX_STATEMENT_COMMITS = 1_000
"""SQLite limits the number of values in a statement."""

_COLUMNS = "place, at, n, prev, req, body, before, by, key, digest, crc"
_INSERT_COMMITS = f"INSERT INTO log ({_COLUMNS}) VALUES "  # noqa: S608  (constants, as below)
_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT_COMMIT = f"SELECT {_COLUMNS} FROM log"  # noqa: S608
_KEY_CONDITION = "WHERE key = ? AND key <> '' AND place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1"
_SELECT_KEY = f"SELECT digest, place, at FROM log {_KEY_CONDITION}"  # noqa: S608
_SELECT_DELETED_KEY = f"SELECT digest, place, at FROM deleted_key {_KEY_CONDITION}"  # noqa: S608
_KEEP_KEYS = (
    "INSERT INTO deleted_key (key, place, digest, at) "
    "SELECT key, place, digest, at FROM log WHERE place BETWEEN ? AND ? AND key <> ''"
)
_BODY = 5
"""Index of the body in a row."""

_LAST_PLACES = """
WITH RECURSIVE last (place) AS (
    SELECT max(place) FROM log
    UNION ALL
    SELECT (SELECT max(place) FROM log WHERE place < (last.place >> 40 << 40)) FROM last WHERE last.place IS NOT NULL
)
SELECT place FROM last WHERE place IS NOT NULL
"""
"""One index lookup per log: from the last commit of a log to the last commit before that log."""

_Row = tuple[int, int, int, int, str, str, int, str, str, str, int]


class SqliteLog:
    """Implements `Log` with the logs of all servers in one file. Thread-safe."""

    def __init__(self, database: Database, clock_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._database = database
        self._clock_us = clock_us

    def head(self, server: int) -> Head:
        last = self._first_or_last(server, "DESC")
        return Head(server) if last is None else last.head

    def last_sessions(self) -> dict[int, int]:
        """The last session of each log, by server."""
        return {place // MAX_SESSIONS: place % MAX_SESSIONS for (place,) in self._database.query(_LAST_PLACES)}

    def append(self, commits: Sequence[Commit]) -> None:
        if len(commits) <= MAX_STATEMENT_COMMITS:
            # A single statement releases the GIL once, until everything is on disk.
            with suppress(apsw.ConstraintError):
                self._database.write(*_insert_statement(commits))
                return
        with self._database.transaction() as connection:
            # One by one, to find out which session is taken.
            for commit in commits:
                _insert_commit(connection, commit)

    def commit(self, server: int, session: int) -> Commit | None:
        rows = self._database.query(f"{_SELECT_COMMIT} WHERE place = ?", (_place(server, session),))
        return _commit_from_row(rows[0]) if rows else None

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        for start in range(0, len(sessions), MAX_PAGE_COMMITS):
            places = [_place(server, session) for session in sessions[start : start + MAX_PAGE_COMMITS]]
            placeholders = ", ".join("?" * len(places))
            rows = self._database.query(f"{_SELECT_COMMIT} WHERE place IN ({placeholders})", places)
            rows_by_place = {row[0]: row for row in rows}
            yield from (_commit_from_row(rows_by_place[place]) for place in places if place in rows_by_place)

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        query = f"{_SELECT_COMMIT} WHERE place > ? AND place <= ? ORDER BY place LIMIT ?"
        return self._query_commits(query, _place(server, after), _place(server, MAX_SESSIONS - 1), limit)

    def read_backwards(self, server: int, before: int, limit: int | None = None) -> Iterator[Commit]:
        query = f"{_SELECT_COMMIT} WHERE place < ? AND place >= ? ORDER BY place DESC LIMIT ?"
        return self._query_commits(query, _place(server, before), _place(server, 0), limit)

    def receipts(self, server: int, keys: Collection[str], head: Head | None = None) -> dict[str, Receipt]:
        """Implements `Receipts`."""
        del head
        return {key: receipt for key in keys if (receipt := self.receipt(server, key)) is not None}

    def read_end(self, server: int) -> None:
        """Implements `Receipts`. The keys are indexed."""

    def remember(self, commits: Sequence[Commit]) -> None:
        """Implements `Receipts`. The keys are indexed."""

    def receipt(self, server: int, key: str) -> Receipt | None:
        """The last use of an idempotency key."""
        values = (key, _place(server, 0), _place(server, MAX_SESSIONS - 1))
        rows = self._database.query(_SELECT_KEY, values) or self._database.query(_SELECT_DELETED_KEY, values)
        return Receipt(rows[0][0], rows[0][1] % MAX_SESSIONS, rows[0][2]) if rows else None

    def start(self, server: int) -> Head:
        first = self._first_or_last(server, "ASC")
        return Head(server) if first is None else first.previous_head

    def delete_up_to(self, server: int, session: int) -> int:
        """Delete some commits up to `session`, but never the last of the log.

        Returns the number of deleted commits, 0 if none are left.
        """
        last = min(session, self.head(server).session - 1)
        first = self.start(server).session + 1
        if last < first:
            return 0
        places = (_place(server, first), _place(server, min(last, first + MAX_DELETED_COMMITS - 1)))
        with self._database.transaction() as connection:
            connection.execute(_KEEP_KEYS, places)
            connection.execute("DELETE FROM log WHERE place BETWEEN ? AND ?", places)
            deleted = connection.changes()
            oldest_us = self._clock_us() - RECEIPT_TTL_S * 1_000_000
            connection.execute("DELETE FROM deleted_key WHERE at < ?", (oldest_us,))
            return deleted

    def _first_or_last(self, server: int, order: str) -> Commit | None:
        # The whole row, to verify its checksum: the next commit is numbered after the last one.
        query = f"{_SELECT_COMMIT} WHERE place BETWEEN ? AND ? ORDER BY place {order} LIMIT 1"
        rows = self._database.query(query, (_place(server, 0), _place(server, MAX_SESSIONS - 1)))
        return _commit_from_row(rows[0]) if rows else None

    def _query_commits(self, query: str, place: int, end: int, limit: int | None) -> Iterator[Commit]:
        remaining, page_size = MAX_SESSIONS if limit is None else limit, FIRST_PAGE_COMMITS
        while rows := self._database.query(query, (place, end, min(remaining, page_size))):
            yield from map(_commit_from_row, rows)
            if len(rows) < page_size:
                return
            place, remaining = rows[-1][0], remaining - len(rows)
            if sum(len(row[_BODY]) for row in rows) < TARGET_PAGE_BYTES:
                page_size = min(page_size * 2, MAX_PAGE_COMMITS)
            else:
                page_size = max(page_size // 2, 1)


def _insert_statement(commits: Sequence[Commit]) -> tuple[str, list[int | str]]:
    """One statement for all commits, and its values."""
    values: list[int | str] = []
    for commit in commits:
        values += _row(commit)
    return _INSERT_COMMITS + ", ".join([_ROW] * len(commits)), values


def _insert_commit(connection: apsw.Connection, commit: Commit) -> None:
    row = _row(commit)
    try:
        connection.execute(_INSERT_COMMITS + _ROW, row)
    except apsw.ConstraintError as error:
        # A retry after a lost response finds our own row: that is success.
        stored = connection.execute("SELECT req FROM log WHERE place = ?", row[:1]).fetchone()
        if stored is None or stored[0] != commit.request_id:
            raise SessionTaken(commit.server, commit.session) from error


def _place(server: int, session: int) -> int:
    return server * MAX_SESSIONS + min(session, MAX_SESSIONS - 1)


def _row(commit: Commit) -> _Row:
    server, session, at, n, prev, request_id, body, before, by, key, digest = commit
    if before is None:
        raise ValueError("a commit needs a position on SQLite")
    return _place(server, session), at, n, prev, request_id, body, before, by, key, digest, commit.checksum


def _commit_from_row(row: _Row) -> Commit:
    place, at, n, prev, request_id, body, before, by, key, digest, checksum = row
    server, session = divmod(place, MAX_SESSIONS)
    if not isinstance(body, str):
        # SQLite returns the type that the row says, whatever the column is.
        raise LogBroken(f"session {session} of server {server} is damaged: its events are not a text")
    return Commit(server, session, at, n, prev, request_id, body, before, by, key, digest).verify(checksum)
