"""The port `Views` on SQLite, in a file of its own: it can be rebuilt, so it need not wait for the disk."""

import sqlite3
from collections.abc import Iterator, Sequence

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.views.record import Change, Record

PAGE_RECORDS = 500
DROP_RECORDS = 1000

SCHEMA = """
CREATE TABLE record (
    view  TEXT NOT NULL,     -- which view of which server and generation
    item  TEXT NOT NULL,     -- which item of it
    "to"  INTEGER NOT NULL,  -- the session up to which it is folded
    data  TEXT NOT NULL,     -- JSON
    PRIMARY KEY (view, item)
) STRICT, WITHOUT ROWID
"""

_RECORD = 'SELECT view, item, "to", data FROM record'
_INSERT = "INSERT INTO record VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_UPDATE = 'UPDATE record SET "to" = ?, data = ? WHERE view = ? AND item = ? AND "to" = ?'

_DROP = "DELETE FROM record WHERE view = ? AND item IN (SELECT item FROM record WHERE view = ? LIMIT ?)"


class SqliteViews:
    """The views of all servers in one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """Those of the items that there are, by item."""
        found: dict[str, Record] = {}
        with self._database.reading() as connection:
            for start in range(0, len(items), PAGE_RECORDS):
                some = items[start : start + PAGE_RECORDS]
                marks = ", ".join("?" * len(some))
                rows = connection.execute(f"{_RECORD} WHERE view = ? AND item IN ({marks})", (view, *some))
                found.update((row[1], Record(*row)) for row in rows)
        return found

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        """Records with `start <= item < end` in the order of their items' bytes, or backwards, fetched page by page."""
        if backwards:
            query = f"{_RECORD} WHERE view = ? AND item >= ? AND item < ? ORDER BY item DESC LIMIT {PAGE_RECORDS}"
            while rows := self._page(query, (view, start, end)):
                yield from (Record(*row) for row in rows)
                end = rows[-1][1]
        else:
            query = f"{_RECORD} WHERE view = ? AND item >= ? AND item < ? ORDER BY item LIMIT {PAGE_RECORDS}"
            while rows := self._page(query, (view, start, end)):
                yield from (Record(*row) for row in rows)
                start = rows[-1][1] + "\0"

    def put(self, changes: Sequence[Change]) -> list[Change]:
        """Write each change by itself; return those refused because the stored record is not what it was."""
        if not changes:
            return []
        with self._database.writing() as connection:
            return [change for change in changes if not _put(connection, change)]

    def drop(self, view: str) -> int:
        """Forget some records of a view; how many, 0 when none are left."""
        with self._database.writing() as connection:
            return connection.execute(_DROP, (view, view, DROP_RECORDS)).rowcount

    def _page(self, query: str, bounds: tuple[str, str, str]) -> list[tuple[str, str, int, str]]:
        with self._database.reading() as connection:
            return connection.execute(query, bounds).fetchall()


def _put(connection: sqlite3.Connection, change: Change) -> bool:
    record = change.record
    if change.was is None:
        return connection.execute(_INSERT, (record.view, record.item, record.to, record.data)).rowcount == 1
    values = (record.to, record.data, record.view, record.item, change.was)
    return connection.execute(_UPDATE, values).rowcount == 1
