"""Views on SQLite, in a file of their own. It can be rebuilt from the log, so writes need not wait for the disk."""

from collections.abc import Iterator, Sequence

import apsw

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.views.record import ConditionalWrite, Record

PAGE_RECORDS = 500
MAX_DROP_RECORDS = 1000

SCHEMA = """
CREATE TABLE record (
    view  TEXT NOT NULL,     -- server, generation and name of the view
    item  TEXT NOT NULL,     -- item of the view
    "to"  INTEGER NOT NULL,  -- the session up to which it is folded
    data  TEXT NOT NULL,     -- JSON
    PRIMARY KEY (view, item)
) STRICT, WITHOUT ROWID
"""

_SELECT = 'SELECT view, item, "to", data FROM record'
_INSERT = "INSERT INTO record VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_UPDATE = 'UPDATE record SET "to" = ?, data = ? WHERE view = ? AND item = ? AND "to" = ?'

_DELETE = "DELETE FROM record WHERE view = ? AND item = ?"
_DROP = "DELETE FROM record WHERE view = ? AND item IN (SELECT item FROM record WHERE view = ? LIMIT ?)"


class SqliteViews:
    """Implements `Views` with the views of all servers in one file. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        records: dict[str, Record] = {}
        for start in range(0, len(items), PAGE_RECORDS):
            page = items[start : start + PAGE_RECORDS]
            placeholders = ", ".join("?" * len(page))
            rows = self._database.query(f"{_SELECT} WHERE view = ? AND item IN ({placeholders})", (view, *page))
            records.update((row[1], Record(*row)) for row in rows)
        return records

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        if backwards:
            query = f"{_SELECT} WHERE view = ? AND item >= ? AND item < ? ORDER BY item DESC LIMIT {PAGE_RECORDS}"
            while rows := self._database.query(query, (view, start, end)):
                yield from (Record(*row) for row in rows)
                end = rows[-1][1]
        else:
            query = f"{_SELECT} WHERE view = ? AND item >= ? AND item < ? ORDER BY item LIMIT {PAGE_RECORDS}"
            while rows := self._database.query(query, (view, start, end)):
                yield from (Record(*row) for row in rows)
                start = rows[-1][1] + "\0"

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        if not changes:
            return []
        with self._database.transaction() as connection:
            return [change for change in changes if not _put(connection, change)]

    def delete(self, view: str, items: Sequence[str]) -> None:
        if items:
            with self._database.transaction() as connection:
                connection.executemany(_DELETE, [(view, item) for item in items])

    def drop(self, view: str) -> int:
        with self._database.transaction() as connection:
            connection.execute(_DROP, (view, view, MAX_DROP_RECORDS))
            return connection.changes()


def _put(connection: apsw.Connection, change: ConditionalWrite) -> bool:
    record = change.record
    if change.expected_version is None:
        connection.execute(_INSERT, (record.view, record.item, record.version, record.data))
    else:
        values = (record.version, record.data, record.view, record.item, change.expected_version)
        connection.execute(_UPDATE, values)
    return connection.changes() == 1
