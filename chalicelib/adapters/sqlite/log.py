"""The log on SQLite."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import apsw

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.errors import KeyTaken, SessionTaken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit

MAX_SESSIONS = 2**40
"""Number of sessions per server in the `place` column."""
MAX_PAGE_COMMITS = 64
FIRST_PAGE_COMMITS = 8
TARGET_PAGE_BYTES = 256 * 1024
"""Pages are small at first and stay small if commits are large, because most readers need only a few."""
MAX_DELETED_COMMITS = 500

_INSERT_COMMITS = "INSERT INTO log (place, at, n, prev, req, body) VALUES "
_ROW = "(?, ?, ?, ?, ?, ?)"
_INSERT_RECEIPT = "INSERT INTO receipt (server, key, digest, session, req, expires) VALUES (?, ?, ?, ?, ?, ?)"
_SELECT_COMMIT = "SELECT place, at, n, prev, req, body FROM log"

_LAST_PLACES = """
WITH RECURSIVE last (place) AS (
    SELECT max(place) FROM log
    UNION ALL
    SELECT (SELECT max(place) FROM log WHERE place < (last.place >> 40 << 40)) FROM last WHERE last.place IS NOT NULL
)
SELECT place FROM last WHERE place IS NOT NULL
"""
"""One index lookup per log: from the last commit of a log to the last commit before that log."""

_Row = tuple[int, int, int, int, str, str]


class SqliteLog:
    """Implements `Log` with the logs of all servers in one file. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self, server: int) -> Head:
        rows = self._database.query(
            "SELECT place, at, n FROM log WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1",
            (_place(server, 0), _place(server, MAX_SESSIONS - 1)),
        )
        if not rows:
            return Head(server)
        place, at, n = rows[0]
        return Head(server, place % MAX_SESSIONS, n, at + n - 1)

    def last_sessions(self) -> dict[int, int]:
        """The last session of each log, by server."""
        return {place // MAX_SESSIONS: place % MAX_SESSIONS for (place,) in self._database.query(_LAST_PLACES)}

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        if commits and not receipts:
            # A single statement releases the GIL once, until everything is on disk.
            with suppress(apsw.ConstraintError):
                self._database.write(*_insert_statement(commits))
                return
        with self._database.transaction() as connection:
            if commits:
                _insert_commits(connection, commits)
            if receipts:
                connection.execute("DELETE FROM receipt WHERE expires < ?", (now_s,))
            for receipt in receipts:
                _insert_receipt(connection, receipt)

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

    def receipt(self, server: int, key: str, now_s: int) -> Receipt | None:
        rows = self._database.query(
            "SELECT server, key, digest, session, req, expires FROM receipt "
            "WHERE server = ? AND key = ? AND expires >= ?",
            (server, key, now_s),
        )
        return Receipt(*rows[0]) if rows else None

    def start(self, server: int) -> Head:
        rows = self._database.query(
            "SELECT place, prev FROM log WHERE place BETWEEN ? AND ? ORDER BY place LIMIT 1",
            (_place(server, 0), _place(server, MAX_SESSIONS - 1)),
        )
        return Head(server, rows[0][0] % MAX_SESSIONS - 1, 0, rows[0][1]) if rows else Head(server)

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
            connection.execute("DELETE FROM log WHERE place BETWEEN ? AND ?", places)
            return connection.changes()

    def _query_commits(self, query: str, place: int, end: int, limit: int | None) -> Iterator[Commit]:
        remaining, page_size = MAX_SESSIONS if limit is None else limit, FIRST_PAGE_COMMITS
        while rows := self._database.query(query, (place, end, min(remaining, page_size))):
            yield from map(_commit_from_row, rows)
            if len(rows) < page_size:
                return
            place, remaining = rows[-1][0], remaining - len(rows)
            if sum(len(row[5]) for row in rows) < TARGET_PAGE_BYTES:
                page_size = min(page_size * 2, MAX_PAGE_COMMITS)
            else:
                page_size = max(page_size // 2, 1)


def _insert_statement(commits: Sequence[Commit]) -> tuple[str, list[int | str]]:
    """One statement for all commits, and its values."""
    values: list[int | str] = []
    for commit in commits:
        values += _row(commit)
    return _INSERT_COMMITS + ", ".join([_ROW] * len(commits)), values


def _insert_commits(connection: apsw.Connection, commits: Sequence[Commit]) -> None:
    try:
        connection.execute(*_insert_statement(commits))
    except apsw.ConstraintError:
        # One by one, to find out which session is taken.
        for commit in commits:
            _insert_commit(connection, commit)


def _insert_commit(connection: apsw.Connection, commit: Commit) -> None:
    row = _row(commit)
    try:
        connection.execute(_INSERT_COMMITS + _ROW, row)
    except apsw.ConstraintError as error:
        # A retry after a lost response finds our own row: that is success.
        if not _is_stored(connection, "SELECT req FROM log WHERE place = ?", row[:1], commit.request_id):
            raise SessionTaken(commit.server, commit.session) from error


def _insert_receipt(connection: apsw.Connection, receipt: Receipt) -> None:
    values = (receipt.server, receipt.key, receipt.digest, receipt.session, receipt.request_id, receipt.expires_s)
    try:
        connection.execute(_INSERT_RECEIPT, values)
    except apsw.ConstraintError as error:
        query = "SELECT req FROM receipt WHERE server = ? AND key = ?"
        if not _is_stored(connection, query, (receipt.server, receipt.key), receipt.request_id):
            raise KeyTaken(receipt.server, receipt.key) from error


def _is_stored(connection: apsw.Connection, query: str, key: tuple[int | str, ...], request_id: str) -> bool:
    """Whether the stored row was written by the same request."""
    row = connection.execute(query, key).fetchone()
    return row is not None and row[0] == request_id


def _place(server: int, session: int) -> int:
    return server * MAX_SESSIONS + min(session, MAX_SESSIONS - 1)


def _row(commit: Commit) -> _Row:
    place = _place(commit.server, commit.session)
    return place, commit.at_us, commit.event_count, commit.previous_event_id, commit.request_id, commit.body


def _commit_from_row(row: _Row) -> Commit:
    place, at, n, prev, request_id, body = row
    return Commit(place // MAX_SESSIONS, place % MAX_SESSIONS, at, n, prev, request_id, body)
