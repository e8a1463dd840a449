"""Views on SQLite, in a file of their own that can be rebuilt from the log, and checkpoints in the outbox file."""

from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.errors import DamagedRecord, Unusable
from chalicelib.domain.views.record import ConditionalWrite, Record

PAGE_RECORDS = 500
MAX_DROP_RECORDS = 1000

SCHEMA = """
CREATE TABLE record (
    view  TEXT NOT NULL,     -- server, generation and name of the view
    item  TEXT NOT NULL,     -- item of the view
    "to"  INTEGER NOT NULL,  -- the session up to which it is folded
    data  TEXT NOT NULL,     -- JSON
    crc   INTEGER NOT NULL DEFAULT 0,  -- CRC-32 of the other columns
    PRIMARY KEY (view, item)
) STRICT, WITHOUT ROWID
"""

_SELECT = 'SELECT view, item, "to", data, crc FROM record'
_INSERT = "INSERT INTO record VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_UPDATE = 'UPDATE record SET "to" = ?, data = ?, crc = ? WHERE view = ? AND item = ? AND "to" = ?'

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
            records.update((row[1], _record(row)) for row in rows)
        return records

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        if backwards:
            query = f"{_SELECT} WHERE view = ? AND item >= ? AND item < ? ORDER BY item DESC LIMIT {PAGE_RECORDS}"
            while rows := self._database.query(query, (view, start, end)):
                yield from map(_record, rows)
                end = rows[-1][1]
        else:
            query = f"{_SELECT} WHERE view = ? AND item >= ? AND item < ? ORDER BY item LIMIT {PAGE_RECORDS}"
            while rows := self._database.query(query, (view, start, end)):
                yield from map(_record, rows)
                start = rows[-1][1] + "\0"

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        if not changes:
            return []
        with self._database.transaction() as connection:
            return [change for change in changes if not _put(connection, change)]

    def check(self) -> None:
        """Raise `Unusable` if a record is damaged or may be missing. Reads all records."""
        with self._database.transaction() as connection:
            problem = connection.execute("PRAGMA quick_check(record)").get
            damaged = next(read_damaged(connection), None)
        if problem != "ok":
            raise Unusable(str(problem))
        if damaged is not None:
            raise DamagedRecord(*damaged, 0)

    def delete(self, view: str, items: Sequence[str]) -> None:
        if items:
            with self._database.transaction() as connection:
                connection.executemany(_DELETE, [(view, item) for item in items])

    def drop(self, view: str) -> int:
        with self._database.transaction() as connection:
            connection.execute(_DROP, (view, view, MAX_DROP_RECORDS))
            return connection.changes()


def upgrade(connection: apsw.Connection) -> None:
    """Upgrade the table of version 1."""
    connection.execute("ALTER TABLE record ADD COLUMN crc INTEGER NOT NULL DEFAULT 0")
    rows: list[Any] = connection.execute(_SELECT).fetchall()
    for view, item, version, data, _ in rows:
        record = Record(view, item, version, data)
        connection.execute("UPDATE record SET crc = ? WHERE view = ? AND item = ?", (record.checksum, view, item))


def read_damaged(connection: apsw.Connection) -> Iterator[tuple[str, str]]:
    """View and item of all records whose checksum is wrong."""
    # As bytes, because a damaged text may not be UTF-8. A damaged row may also say that it has no text.
    query = 'SELECT CAST(view AS BLOB), CAST(item AS BLOB), "to", CAST(data AS BLOB), crc FROM record'
    for view, item, version, data, checksum in connection.execute(query):
        names = [bytes(name or b"").decode(errors="backslashreplace") for name in (view, item)]
        try:
            Record(view.decode(), item.decode(), version, data.decode()).verify(checksum)
        except (DamagedRecord, UnicodeDecodeError, AttributeError):
            yield names[0], names[1]


def _record(row: tuple[str, str, int, str, int]) -> Record:
    return Record(*row[:4]).verify(row[4])


def _put(connection: apsw.Connection, change: ConditionalWrite) -> bool:
    record = change.record
    if change.expected_version is None:
        connection.execute(_INSERT, (record.view, record.item, record.version, record.data, record.checksum))
    else:
        key = (record.view, record.item, change.expected_version)
        values = (record.version, record.data, record.checksum, *key)
        connection.execute(_UPDATE, values)
    return connection.changes() == 1
