"""The port `Log` on SQLite."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.errors import KeyTaken, SessionTaken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit

SESSIONS = 2**40
"""Room for sessions in the place of a server."""
PAGE_COMMITS = 64
FIRST_COMMITS = 8
PAGE_BYTES = 256 * 1024
"""Commits are fetched a few at a time, and fewer if they are large: most readers have enough soon."""
FORGET_COMMITS = 500

_INSERT_COMMITS = "INSERT INTO log (place, at, n, prev, req, body) VALUES "
_ROW = "(?, ?, ?, ?, ?, ?)"
_INSERT_RECEIPT = "INSERT INTO receipt (server, key, digest, session, req, expires) VALUES (?, ?, ?, ?, ?, ?)"
_COMMIT = "SELECT place, at, n, prev, req, body FROM log"

_Row = tuple[int, int, int, int, str, str]


class SqliteLog:
    """The logs of all servers in one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self, server: int) -> Head:
        """Where the log of `server` ends."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT place, at, n FROM log WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1",
                (_place(server, 0), _place(server, SESSIONS - 1)),
            ).fetchone()
        if row is None:
            return Head(server)
        place, at, n = row
        return Head(server, place % SESSIONS, n, at + n - 1)

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        """Store all of it durably, or none and raise `SessionTaken` or `KeyTaken`."""
        if commits and not receipts:
            # One statement lets go of the interpreter's lock once, until all of it is on the disk.
            with suppress(sqlite3.IntegrityError):
                self._database.write(*_insertion(commits))
                return
        with self._database.writing() as connection:
            if commits:
                _insert_commits(connection, commits)
            if receipts:
                connection.execute("DELETE FROM receipt WHERE expires < ?", (now_s,))
            for receipt in receipts:
                _insert_receipt(connection, receipt)

    def commit(self, server: int, session: int) -> Commit | None:
        """The commit with this session, if there is one."""
        with self._database.reading() as connection:
            row = connection.execute(f"{_COMMIT} WHERE place = ?", (_place(server, session),)).fetchone()
        return None if row is None else _commit(row)

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        """The commits with these sessions, in the order given, fetched page by page; missing ones are left out."""
        for start in range(0, len(sessions), PAGE_COMMITS):
            places = [_place(server, session) for session in sessions[start : start + PAGE_COMMITS]]
            marks = ", ".join("?" * len(places))
            with self._database.reading() as connection:
                rows = connection.execute(f"{_COMMIT} WHERE place IN ({marks})", places).fetchall()
            found = {row[0]: row for row in rows}
            yield from (_commit(found[place]) for place in places if place in found)

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        """Commits with sessions greater than `after`, ascending, `most` at most, fetched page by page."""
        query = f"{_COMMIT} WHERE place > ? AND place <= ? ORDER BY place LIMIT ?"
        return self._commits(query, _place(server, after), _place(server, SESSIONS - 1), most)

    def read_back(self, server: int, before: int, most: int | None = None) -> Iterator[Commit]:
        """Commits with sessions smaller than `before`, descending, `most` at most, fetched page by page."""
        query = f"{_COMMIT} WHERE place < ? AND place >= ? ORDER BY place DESC LIMIT ?"
        return self._commits(query, _place(server, before), _place(server, 0), most)

    def receipt(self, server: int, key: str, now_s: int) -> Receipt | None:
        """What the idempotency key was used for, unless it expired before `now_s`."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT server, key, digest, session, req, expires FROM receipt "
                "WHERE server = ? AND key = ? AND expires >= ?",
                (server, key, now_s),
            ).fetchone()
        return None if row is None else Receipt(*row)

    def start(self, server: int) -> Head:
        """The head before the first commit that is kept."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT place, prev FROM log WHERE place BETWEEN ? AND ? ORDER BY place LIMIT 1",
                (_place(server, 0), _place(server, SESSIONS - 1)),
            ).fetchone()
        return Head(server) if row is None else Head(server, row[0] % SESSIONS - 1, 0, row[1])

    def forget(self, server: int, session: int) -> int:
        """Delete some of the commits up to `session`, never the last of the log; how many, 0 when none are left."""
        last = min(session, self.head(server).session - 1)
        first = self.start(server).session + 1
        places = (_place(server, first), _place(server, min(last, first + FORGET_COMMITS - 1)))
        with self._database.writing() as connection:
            return connection.execute("DELETE FROM log WHERE place BETWEEN ? AND ?", places).rowcount

    def _commits(self, query: str, place: int, end: int, most: int | None) -> Iterator[Commit]:
        left, page = SESSIONS if most is None else most, FIRST_COMMITS
        while rows := self._page(query, (place, end, min(left, page))):
            yield from map(_commit, rows)
            if len(rows) < page:
                return
            place, left = rows[-1][0], left - len(rows)
            page = min(page * 2, PAGE_COMMITS) if sum(len(row[5]) for row in rows) < PAGE_BYTES else max(page // 2, 1)

    def _page(self, query: str, bounds: tuple[int, int, int]) -> list[_Row]:
        with self._database.reading() as connection:
            return connection.execute(query, bounds).fetchall()


def _insertion(commits: Sequence[Commit]) -> tuple[str, list[int | str]]:
    """The statement that inserts all of them, and its values."""
    values: list[int | str] = []
    for commit in commits:
        values += _values(commit)
    return _INSERT_COMMITS + ", ".join([_ROW] * len(commits)), values


def _insert_commits(connection: sqlite3.Connection, commits: Sequence[Commit]) -> None:
    try:
        connection.execute(*_insertion(commits))
    except sqlite3.IntegrityError:
        for commit in commits:
            _insert_commit(connection, commit)


def _insert_commit(connection: sqlite3.Connection, commit: Commit) -> None:
    values = _values(commit)
    try:
        connection.execute(_INSERT_COMMITS + _ROW, values)
    except sqlite3.IntegrityError as refusal:
        # A repeat after a lost answer meets our own row: that is success.
        if not _holds(connection, "SELECT req FROM log WHERE place = ?", values[:1], commit.request_id):
            raise SessionTaken(commit.server, commit.session) from refusal


def _insert_receipt(connection: sqlite3.Connection, receipt: Receipt) -> None:
    values = (receipt.server, receipt.key, receipt.digest, receipt.session, receipt.request_id, receipt.expires_s)
    try:
        connection.execute(_INSERT_RECEIPT, values)
    except sqlite3.IntegrityError as refusal:
        held = "SELECT req FROM receipt WHERE server = ? AND key = ?"
        if not _holds(connection, held, (receipt.server, receipt.key), receipt.request_id):
            raise KeyTaken(receipt.server, receipt.key) from refusal


def _holds(connection: sqlite3.Connection, query: str, key: tuple[int | str, ...], request_id: str) -> bool:
    row = connection.execute(query, key).fetchone()
    return row is not None and row[0] == request_id


def _place(server: int, session: int) -> int:
    return server * SESSIONS + min(session, SESSIONS - 1)


def _values(commit: Commit) -> _Row:
    place = _place(commit.server, commit.session)
    return place, commit.at, commit.n, commit.prev, commit.request_id, commit.body


def _commit(row: _Row) -> Commit:
    place, at, n, prev, request_id, body = row
    return Commit(place // SESSIONS, place % SESSIONS, at, n, prev, request_id, body)
