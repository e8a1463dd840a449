"""The outbox on SQLite, in a file of its own, so that deliveries do not slow down appends.

Deliveries with the same observer, key and address form a queue. Only the first waiting delivery of a queue is not
`blocked`, so the worker finds what is due without reading the deliveries behind it. Every change of a state keeps this
so, in the same transaction.

Each row has a checksum that is verified on every read. A damaged delivery is put aside: it is neither sent nor listed,
and `annals check` names it.
"""

import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw

from chalicelib.adapters.mail.message import Clock, now_ms
from chalicelib.adapters.sqlite import views
from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, Parked, Tries

WAITING, PARKED, SENT, DROPPED, DAMAGED = range(5)
_STATES = {WAITING: "waiting", PARKED: "parked", SENT: "sent", DROPPED: "dropped"}

DONE_RETENTION_MS = 7 * 24 * 3600 * 1000
"""How long sent, dropped and damaged deliveries are kept, to ignore deliveries that are put again."""

_log = logging.getLogger("annals")

_INDEXES = """
CREATE INDEX delivery_order ON delivery (server, observer, key, address, n) WHERE state = 0;
CREATE INDEX delivery_due ON delivery (server, observer, at) WHERE state = 0 AND blocked = 0;
"""
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
    crc      INTEGER NOT NULL DEFAULT 0     -- CRC-32 of the other columns except blocked
) STRICT;
CREATE UNIQUE INDEX delivery_id ON delivery (server, id);
CREATE INDEX delivery_state ON delivery (state, server, observer, n);
CREATE INDEX delivery_done ON delivery (at) WHERE state >= 2;
{_INDEXES.strip()}
"""
_NEW_COLUMNS = ("since", "unfinished", "put", "blocked", "crc")
"""Columns that files of version 0.1.0 lack."""


class _Row(NamedTuple):
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

    @property
    def checksum(self) -> int:
        return zlib.crc32("\0".join(map(str, self)).encode())


# Texts are read as bytes, because a damaged one may not be UTF-8. It must not make other rows unreadable.
_SELECT = """
SELECT n, server, CAST(observer AS BLOB), CAST(id AS BLOB), session, instance, CAST(key AS BLOB), CAST(address AS BLOB),
    CAST(replay AS BLOB), state, tries, at, CAST(error AS BLOB), since, unfinished, put, crc
FROM delivery
"""
_INSERT = """
INSERT INTO delivery (
    n, server, observer, id, session, instance, key, address, replay,
    state, tries, at, error, since, unfinished, put, crc
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_UPDATE = """
UPDATE delivery SET state = ?, tries = ?, at = ?, error = ?, since = ?, unfinished = ?, put = ?, crc = ? WHERE n = ?
"""
_NEXT_OBSERVER = """
SELECT server, observer, at FROM delivery INDEXED BY delivery_due
WHERE state = 0 AND blocked = 0 AND (server, observer) > (?, ?)
ORDER BY server, observer, at LIMIT 1
"""
_DUE = """
SELECT n FROM delivery INDEXED BY delivery_due
WHERE state = 0 AND blocked = 0 AND server = ? AND observer = ? AND at <= ? ORDER BY at, n LIMIT ?
"""
_FIRST_IN_QUEUE = """
SELECT n FROM delivery INDEXED BY delivery_order
WHERE state = 0 AND server = ? AND observer = ? AND key = ? AND address = ? ORDER BY n LIMIT 2
"""
_UPDATE_ALL_BLOCKED = """
UPDATE delivery SET blocked = 1 - blocked WHERE state = 0 AND blocked != EXISTS (
    SELECT 1 FROM delivery AS earlier
    WHERE earlier.state = 0 AND earlier.server = delivery.server AND earlier.observer = delivery.observer
        AND earlier.key = delivery.key AND earlier.address = delivery.address AND earlier.n < delivery.n
)
"""
_DELETE_DONE = "DELETE FROM delivery WHERE n IN (SELECT n FROM delivery WHERE state >= 2 AND at < ? LIMIT 1000)"


@dataclass(frozen=True, slots=True)
class WaitingDelivery:
    """A delivery in the queue, and its tries so far."""

    n: int
    tries: Tries
    due_ms: int
    put_ms: int
    delivery: Delivery


class SqliteOutbox:
    """Implements `Outbox` with the deliveries of all servers in one file. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = now_ms) -> None:
        self._database = database
        self._clock = clock

    def put(self, deliveries: Sequence[Delivery]) -> None:
        if not deliveries:
            return
        put_ms = self._clock()
        with self._database.transaction() as connection:
            last_n: int = connection.execute("SELECT coalesce(max(n), 0) FROM delivery").get
            for delivery in deliveries:
                row = _new_row(last_n + 1, delivery, put_ms)
                connection.execute(_INSERT, (*row, row.checksum))
                if connection.changes():
                    last_n = row.n
                    _mark_blocked(connection, row)

    def parked(self, server: int, observer: str, after: str, limit: int) -> list[Parked]:
        query = "SELECT n FROM delivery WHERE state = ? AND server = ? AND observer = ? AND id > ? ORDER BY id LIMIT ?"
        rows = self._load_all(self._database.query(query, (PARKED, server, observer, after, limit)))
        return [Parked(_delivery(row), row.tries, row.error, row.at) for row in rows if row.state == PARKED]

    def retry(self, server: int, observer: str, ids: Sequence[str]) -> int:
        query = "SELECT n FROM delivery WHERE server = ? AND id = ? AND observer = ? AND state = ?"
        now = self._clock()
        retried = 0
        with self._database.transaction() as connection:
            for delivery_id in ids:
                n: int | None = connection.execute(query, (server, delivery_id, observer, PARKED)).get
                row = None if n is None else _load(connection, n)
                if row is not None and row.state == PARKED:
                    row = row._replace(state=WAITING, tries=0, at=now, error="", since=0, unfinished=0, put=now)
                    _store(connection, row)
                    _mark_blocked(connection, row)
                    retried += 1
        return retried

    def counts(self, server: int, observer: str) -> dict[str, int]:
        """Numbers of waiting, parked and recently sent or dropped deliveries."""
        query = "SELECT state, count(*) FROM delivery WHERE server = ? AND observer = ? AND state = ?"
        return {name: self._database.query(query, (server, observer, state))[0][1] for state, name in _STATES.items()}

    def observers_with_due_work(self, at_ms: int) -> Iterator[tuple[int, str]]:
        """Server and name of each observer with deliveries that are due. Takes one query per observer."""
        server, observer = -(2**63), ""
        while rows := self._database.query(_NEXT_OBSERVER, (server, observer)):
            ((server, observer, due_ms),) = rows
            if due_ms <= at_ms:
                yield server, observer

    def due(self, server: int, observer: str, at_ms: int, limit: int) -> list[WaitingDelivery]:
        """Deliveries of an observer that are due, the first one first, and not blocked by an earlier one."""
        rows = self._load_all(self._database.query(_DUE, (server, observer, at_ms, limit)))
        return [_waiting(row) for row in rows if row.state == WAITING]

    def waiting(self, server: int, observer: str) -> list[WaitingDelivery]:
        """All waiting deliveries of an observer in order, due or not."""
        query = "SELECT n FROM delivery WHERE state = ? AND server = ? AND observer = ? ORDER BY n"
        return [_waiting(row) for row in self._load_all(self._database.query(query, (WAITING, server, observer)))]

    def record_tries(self, n: int, tries: Tries) -> None:
        """Store the tries. Call it before an attempt, so that one that crashes the process counts too."""
        with self._database.transaction() as connection:
            if (row := _load(connection, n)) is not None:
                _store(connection, _with_tries(row, tries))

    def record_outcome(self, n: int, state: int, at_ms: int, error: str = "", tries: Tries | None = None) -> None:
        """Store the new state after an attempt: sent, dropped, parked, or waiting until `at_ms`."""
        with self._database.transaction() as connection:
            if (row := _load(connection, n)) is not None:
                row = row._replace(state=state, at=at_ms, error=error)
                row = row if tries is None else _with_tries(row, tries)
                _store(connection, row)
                if state != WAITING:
                    _mark_blocked(connection, row)

    def repair_order(self) -> None:
        """Mark the deliveries that are blocked, and no others. Needed after deliveries were deleted."""
        with self._database.transaction() as connection:
            connection.execute(_UPDATE_ALL_BLOCKED)

    def delete_after(self, server: int, session: int) -> int:
        """Delete the deliveries for events after `session` and return how many there were."""
        with self._database.transaction() as connection:
            query = "DELETE FROM delivery WHERE server = ? AND session > ?"
            connection.execute(query, (server, session))
            return connection.changes()

    def delete_done(self, now_ms: int) -> int:
        """Delete some deliveries that ended more than `DONE_RETENTION_MS` ago and return how many."""
        with self._database.transaction() as connection:
            connection.execute(_DELETE_DONE, (now_ms - DONE_RETENTION_MS,))
            return connection.changes()

    def _load_all(self, numbers: Sequence[tuple[int]]) -> list[_Row]:
        """The rows with these numbers. Damaged ones are left out, and put aside with those behind them unblocked."""
        query = f"{_SELECT} WHERE n = ?"
        rows = {n: _verified(stored) for (n,) in numbers for stored in self._database.query(query, (n,))}
        if damaged := [n for n, row in rows.items() if row is None]:
            self._put_aside(damaged)
        return [row for row in rows.values() if row is not None]

    def _put_aside(self, numbers: Sequence[int]) -> None:
        for n in numbers:
            _log.error("delivery %d in outbox.sqlite is damaged and is not sent. Run `annals check`", n)
        with self._database.transaction() as connection:
            for n in numbers:
                try:
                    connection.execute("UPDATE delivery SET state = ?, at = ? WHERE n = ?", (DAMAGED, self._clock(), n))
                except apsw.ConstraintError:  # Another column has a value of the wrong type.
                    connection.execute("DELETE FROM delivery WHERE n = ?", (n,))
            connection.execute(_UPDATE_ALL_BLOCKED)


def read_damaged(connection: apsw.Connection) -> Iterator[int]:
    """The numbers of all deliveries whose checksum is wrong."""
    for stored in connection.execute(_SELECT):
        if _verified(stored) is None:
            yield int(stored[0])


def upgrade(connection: apsw.Connection) -> None:
    """Upgrade a file of version 1, which also has checkpoints."""
    existing = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('delivery')")}
    for column in _NEW_COLUMNS:
        if column not in existing:
            connection.execute(f"ALTER TABLE delivery ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    connection.execute(_INDEXES)
    connection.execute("UPDATE delivery SET put = ?", (now_ms(),))
    connection.execute(_UPDATE_ALL_BLOCKED)
    for stored in connection.execute(_SELECT).fetchall():
        _store(connection, _parse(stored))
    if connection.execute("SELECT name FROM sqlite_master WHERE name = 'record'").get is not None:
        views.upgrade(connection)


def _load(connection: apsw.Connection, n: int) -> _Row | None:
    """None if the row is damaged, or was deleted meanwhile."""
    stored = connection.execute(f"{_SELECT} WHERE n = ?", (n,)).fetchone()
    return None if stored is None else _verified(stored)


def _verified(stored: Sequence[Any]) -> _Row | None:
    """The row, or None if its checksum is wrong."""
    try:
        row = _parse(stored)
    except UnicodeDecodeError:
        return None
    return row if row.checksum == stored[-1] else None


def _parse(stored: Sequence[Any]) -> _Row:
    return _Row._make(value.decode() if isinstance(value, bytes) else value for value in stored[:-1])


def _store(connection: apsw.Connection, row: _Row) -> None:
    values = (row.state, row.tries, row.at, row.error, row.since, row.unfinished, row.put)
    connection.execute(_UPDATE, (*values, row.checksum, row.n))


def _mark_blocked(connection: apsw.Connection, changed: _Row) -> None:
    """Mark the deliveries of a queue as blocked or not, after one of them has entered or left it."""
    queue = (changed.server, changed.observer, changed.key, changed.address)
    first = [n for (n,) in connection.execute(_FIRST_IN_QUEUE, queue)]
    blocked = {n: position > 0 for position, n in enumerate(first)}
    if changed.state == WAITING:
        blocked.setdefault(changed.n, True)
    for n, is_blocked in blocked.items():
        connection.execute("UPDATE delivery SET blocked = ?1 WHERE n = ?2 AND blocked != ?1", (int(is_blocked), n))


def _new_row(n: int, delivery: Delivery, put_ms: int) -> _Row:
    return _Row(
        n=n,
        server=delivery.server,
        observer=delivery.observer,
        id=delivery.id,
        session=delivery.event.session,
        instance=delivery.event.instance,
        key=delivery.key,
        address=delivery.address,
        replay=delivery.replay,
        state=WAITING,
        tries=0,
        at=put_ms,
        error="",
        since=0,
        unfinished=0,
        put=put_ms,
    )


def _with_tries(row: _Row, tries: Tries) -> _Row:
    return row._replace(tries=tries.count, since=tries.since_ms, unfinished=tries.unfinished)


def _waiting(row: _Row) -> WaitingDelivery:
    return WaitingDelivery(row.n, Tries(row.tries, row.since, row.unfinished), row.at, row.put, _delivery(row))


def _delivery(row: _Row) -> Delivery:
    event = Id(row.server, row.session, row.instance)
    return Delivery(row.id, row.server, row.observer, event, row.key, row.address, row.replay)
