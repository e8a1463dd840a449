"""The outbox on SQLite, in a file of its own, so that deliveries do not slow down appends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, Parked, Tries

WAITING, PARKED, SENT, DROPPED = range(4)
_STATES = {WAITING: "waiting", PARKED: "parked", SENT: "sent", DROPPED: "dropped"}

DONE_RETENTION_MS = 7 * 24 * 3600 * 1000
"""How long sent and dropped deliveries are kept, to ignore deliveries that are put again."""

SCHEMA = """
CREATE TABLE delivery (
    n        INTEGER PRIMARY KEY,  -- ascending in the order of put
    server   INTEGER NOT NULL,
    observer TEXT NOT NULL,
    id       TEXT NOT NULL,
    session  INTEGER NOT NULL,     -- session and instance of the event
    instance INTEGER NOT NULL,
    key      TEXT NOT NULL,        -- deliveries with the same observer and key are sent in order
    address  TEXT NOT NULL,
    replay   TEXT NOT NULL,
    state    INTEGER NOT NULL,     -- 0 waiting, 1 parked, 2 sent, 3 dropped
    tries    INTEGER NOT NULL,
    at       INTEGER NOT NULL,     -- milliseconds: when it is due, or when it was parked, sent or dropped
    error    TEXT NOT NULL,
    since    INTEGER NOT NULL DEFAULT 0,    -- milliseconds: time of the first try
    unfinished INTEGER NOT NULL DEFAULT 0   -- consecutive tries during which the worker process ended
) STRICT;
CREATE UNIQUE INDEX delivery_id ON delivery (server, id);
CREATE INDEX delivery_state ON delivery (state, server, observer, n);
CREATE INDEX delivery_done ON delivery (at) WHERE state >= 2;
"""

_NEW_COLUMNS = ("since", "unfinished")
"""Columns that files of version 0.1.0 lack."""

_PUT = """
INSERT INTO delivery (server, observer, id, session, instance, key, address, replay, state, tries, at, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, '') ON CONFLICT DO NOTHING
"""
_SELECT = """
SELECT n, tries, at, error, id, server, observer, session, instance, key, address, replay, since, unfinished
FROM delivery WHERE state = ? AND server = ? AND observer = ?
"""
_RETRY = """
UPDATE delivery SET state = 0, tries = 0, at = 0, error = '', since = 0, unfinished = 0
WHERE state = 1 AND server = ? AND observer = ? AND id = ?
"""
_DELETE_DONE = "DELETE FROM delivery WHERE n IN (SELECT n FROM delivery WHERE state >= 2 AND at < ? LIMIT 1000)"


@dataclass(frozen=True, slots=True)
class WaitingDelivery:
    """A delivery in the queue, and its tries so far."""

    n: int
    tries: Tries
    due_ms: int
    delivery: Delivery


class SqliteOutbox:
    """Implements `Outbox` with the deliveries of all servers in one file. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._add_new_columns()

    def put(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            with self._database.transaction() as connection:
                connection.executemany(_PUT, map(_row, deliveries))

    def parked(self, server: int, observer: str, after: str, limit: int) -> list[Parked]:
        values = (PARKED, server, observer, after, limit)
        rows = self._database.query(f"{_SELECT} AND id > ? ORDER BY id LIMIT ?", values)
        return [Parked(_delivery(row), row[1], row[3], row[2]) for row in rows]

    def retry(self, server: int, observer: str, ids: Sequence[str]) -> int:
        with self._database.transaction() as connection:
            before = connection.total_changes()
            connection.executemany(_RETRY, [(server, observer, delivery_id) for delivery_id in ids])
            return connection.total_changes() - before

    def counts(self, server: int, observer: str) -> dict[str, int]:
        """Numbers of waiting, parked and recently sent or dropped deliveries."""
        query = "SELECT state, count(*) FROM delivery WHERE server = ? AND observer = ? AND state = ?"
        return {name: self._database.query(query, (server, observer, state))[0][1] for state, name in _STATES.items()}

    def observers_with_work(self) -> list[tuple[int, str]]:
        """Server and name of each observer with waiting deliveries."""
        query = "SELECT DISTINCT server, observer FROM delivery WHERE state = ?"
        return self._database.query(query, (WAITING,))

    def waiting(self, server: int, observer: str, after: int, limit: int) -> list[WaitingDelivery]:
        """Waiting deliveries of an observer in order, due or not, with `n` greater than `after`."""
        values = (WAITING, server, observer, after, limit)
        rows = self._database.query(f"{_SELECT} AND n > ? ORDER BY n LIMIT ?", values)
        return [WaitingDelivery(row[0], Tries(row[1], row[12], row[13]), row[2], _delivery(row)) for row in rows]

    def record_tries(self, n: int, tries: Tries) -> None:
        """Store the tries. Call it before an attempt, so that one that crashes the process counts too."""
        with self._database.transaction() as connection:
            _record_tries(connection, n, tries)

    def record_outcome(self, n: int, state: int, at_ms: int, error: str = "", tries: Tries | None = None) -> None:
        """Store the new state after an attempt: sent, dropped, parked, or waiting until `at_ms`."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE delivery SET state = ?, at = ?, error = ? WHERE n = ?", (state, at_ms, error, n))
            if tries is not None:
                _record_tries(connection, n, tries)

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

    def _add_new_columns(self) -> None:
        if self._missing_columns():
            with self._database.transaction() as connection:
                # Again, because another process may have added them meanwhile.
                for column in self._missing_columns():
                    connection.execute(f"ALTER TABLE delivery ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")

    def _missing_columns(self) -> list[str]:
        columns = [name for (name,) in self._database.query("SELECT name FROM pragma_table_info('delivery')")]
        return [column for column in _NEW_COLUMNS if columns and column not in columns]


def _record_tries(connection: apsw.Connection, n: int, tries: Tries) -> None:
    values = (tries.count, tries.since_ms, tries.unfinished, n)
    connection.execute("UPDATE delivery SET tries = ?, since = ?, unfinished = ? WHERE n = ?", values)


def _row(delivery: Delivery) -> tuple[int | str, ...]:
    return (
        delivery.server,
        delivery.observer,
        delivery.id,
        delivery.event.session,
        delivery.event.instance,
        delivery.key,
        delivery.address,
        delivery.replay,
    )


def _delivery(row: tuple[Any, ...]) -> Delivery:
    delivery_id, server, observer, session, instance, key, address, replay = row[4:12]
    return Delivery(delivery_id, server, observer, Id(server, session, instance), key, address, replay)
