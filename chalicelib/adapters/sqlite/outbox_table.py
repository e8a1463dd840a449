"""The table of deliveries: its schema, and its rows with their checksums."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from chalicelib.adapters.mail.message import now_ms
from chalicelib.adapters.sqlite import views

WAITING, PARKED, SENT, DROPPED, DAMAGED = range(5)

_INDEXES = """
CREATE INDEX delivery_order ON delivery (server, observer, key, address, n) WHERE state = 0;
CREATE INDEX delivery_due ON delivery (server, observer, at) WHERE state = 0 AND blocked = 0;
"""
_DIGEST_COLUMNS = {
    "until": "INTEGER NOT NULL DEFAULT 0",
    "events": "INTEGER NOT NULL DEFAULT 1",
    "samples": "TEXT NOT NULL DEFAULT ''",
}
"""Of a held message: EventId of the last event, number of events, and ids of the first ones. `until` is 0 for others.

Files of version 2 lack these columns.
"""
CREATE_ID_INDEX = "CREATE UNIQUE INDEX delivery_id ON delivery (server, id)"
SCHEMA = f"""
CREATE TABLE delivery (
    n        INTEGER PRIMARY KEY,  -- ascending in the order of put
    server   INTEGER NOT NULL,
    observer TEXT NOT NULL,
    id       TEXT NOT NULL,
    session  INTEGER NOT NULL,     -- session and instance of the event
    instance INTEGER NOT NULL,
    key      TEXT NOT NULL,        -- deliveries with the same observer, key and address are sent in order
    address  TEXT NOT NULL,
    replay   TEXT NOT NULL,
    state    INTEGER NOT NULL,     -- 0 waiting, 1 parked, 2 sent, 3 dropped, 4 damaged
    tries    INTEGER NOT NULL,
    at       INTEGER NOT NULL,     -- milliseconds: when it is due, or when it was parked, sent or dropped
    error    TEXT NOT NULL,
    since    INTEGER NOT NULL DEFAULT 0,    -- milliseconds: time of the first try
    unfinished INTEGER NOT NULL DEFAULT 0,  -- consecutive tries during which the worker process ended
    put      INTEGER NOT NULL DEFAULT 0,    -- milliseconds: when it was put, or when a user retried it
    blocked  INTEGER NOT NULL DEFAULT 0,    -- 1 while it waits behind an earlier delivery
    crc      INTEGER NOT NULL DEFAULT 0,    -- CRC-32 of the other columns except blocked
    {", ".join(f"{name} {kind}" for name, kind in _DIGEST_COLUMNS.items())}
) STRICT;
{CREATE_ID_INDEX};
CREATE INDEX delivery_state ON delivery (state, server, observer, n);
CREATE INDEX delivery_done ON delivery (at) WHERE state >= 2;
{_INDEXES.strip()}
"""
_NEW_COLUMNS = ("since", "unfinished", "put", "blocked", "crc")
"""Columns that files of version 0.1.0 lack."""


_TEXTS = ("observer", "id", "key", "address", "replay", "error", "samples")


_VERSION_2_COLUMNS = 16
"""The number of columns of a row in files of version 2."""


class Row(NamedTuple):
    """The columns of a delivery, except `blocked`, which follows from the others."""

    n: int
    server: int
    observer: str
    id: str
    session: int
    instance: int
    key: str
    address: str
    replay: str
    state: int
    tries: int
    at: int
    error: str
    since: int
    unfinished: int
    put: int
    until: int = 0
    events: int = 1
    samples: str = ""

    @property
    def checksum(self) -> int:
        """Of all columns. Rows of files of version 2 are not rewritten, so their checksum has no later columns."""
        columns = self if self[_VERSION_2_COLUMNS:] != (0, 1, "") else self[:_VERSION_2_COLUMNS]
        return zlib.crc32("\0".join(map(str, columns)).encode())


SELECT_ROW = """
SELECT n, server, {observer}, {id}, session, instance, {key}, {address}, {replay}, state, tries, at, {error}, since,
    unfinished, put, until, events, {samples}, crc
FROM delivery
""".format_map({name: f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), NULL)" for name in _TEXTS})
"""Texts are read as bytes, because a damaged one may not be UTF-8. It must not make other rows unreadable.

A damaged row may also say that a text is a number or a blob.
"""
_SELECT_ROW_2 = SELECT_ROW.replace(
    "until, events, iif(typeof(samples) = 'text', CAST(samples AS BLOB), NULL)", "0, 1, x''"
)
INSERT = """
INSERT INTO delivery (
    n, server, observer, id, session, instance, key, address, replay,
    state, tries, at, error, since, unfinished, put, until, events, samples, crc
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_UPDATE = """
UPDATE delivery SET state = ?, tries = ?, at = ?, error = ?, since = ?, unfinished = ?, put = ?, crc = ? WHERE n = ?
"""
DELETE_DAMAGED_WITH_ID_OF_ANOTHER = """
DELETE FROM delivery WHERE state = 4 AND EXISTS (
    SELECT 1 FROM delivery AS other
    WHERE other.server = delivery.server AND other.id = delivery.id AND other.n != delivery.n
)
"""
UPDATE_ALL_BLOCKED = """
UPDATE delivery SET blocked = 1 - blocked WHERE state = 0 AND blocked != EXISTS (
    SELECT 1 FROM delivery AS earlier
    WHERE earlier.state = 0 AND earlier.server = delivery.server AND earlier.observer = delivery.observer
        AND earlier.key = delivery.key AND earlier.address = delivery.address AND earlier.n < delivery.n
)
"""


def read_damaged(connection: apsw.Connection) -> Iterator[int]:
    """The numbers of all deliveries whose checksum is wrong. The file may be one of version 2."""
    has_digests = "until" in _columns(connection)
    for stored in connection.execute(SELECT_ROW if has_digests else _SELECT_ROW_2):
        if verified(stored) is None:
            yield int(stored[0])


def upgrade(connection: apsw.Connection) -> None:
    """Upgrade a file of version 1, which also has checkpoints."""
    _add_columns(connection, dict.fromkeys(_NEW_COLUMNS, "INTEGER NOT NULL DEFAULT 0") | _DIGEST_COLUMNS)
    connection.execute(_INDEXES)
    connection.execute("UPDATE delivery SET put = ?", (now_ms(),))
    connection.execute(UPDATE_ALL_BLOCKED)
    for stored in connection.execute(SELECT_ROW).fetchall():
        store(connection, _parse(stored))
    if connection.execute("SELECT name FROM sqlite_master WHERE name = 'record'").get is not None:
        views.upgrade(connection)


def add_digest_columns(connection: apsw.Connection) -> None:
    """Upgrade a file of version 2."""
    _add_columns(connection, _DIGEST_COLUMNS)


UPGRADES = (upgrade, add_digest_columns)


def load(connection: apsw.Connection, n: int) -> Row | None:
    """None if the row is damaged, or was deleted meanwhile."""
    stored = connection.execute(f"{SELECT_ROW} WHERE n = ?", (n,)).fetchone()
    return None if stored is None else verified(stored)


def _columns(connection: apsw.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('delivery')")}


def _add_columns(connection: apsw.Connection, columns: Mapping[str, str]) -> None:
    existing = _columns(connection)
    for name, kind in columns.items():
        if name not in existing:
            connection.execute(f"ALTER TABLE delivery ADD COLUMN {name} {kind}")


def verified(stored: Sequence[Any]) -> Row | None:
    """The row, or None if its checksum is wrong."""
    try:
        row = _parse(stored)
    except UnicodeDecodeError:
        return None
    return row if row.checksum == stored[-1] else None


def _parse(stored: Sequence[Any]) -> Row:
    return Row._make(value.decode() if isinstance(value, bytes) else value for value in stored[:-1])


def store(connection: apsw.Connection, row: Row) -> None:
    values = (row.state, row.tries, row.at, row.error, row.since, row.unfinished, row.put)
    connection.execute(_UPDATE, (*values, row.checksum, row.n))
