"""The outbox on SQLite, in a file of its own, so that deliveries do not slow down appends.

Deliveries with the same observer, key and address form a queue. Only the first waiting delivery of a queue is not
`blocked`, so the worker finds what is due without reading the deliveries behind it. Every change of a state keeps this
so, in the same transaction.

Each row has a checksum that is verified on every read. A damaged delivery is put aside: it is neither sent nor listed,
and `annals check` names it. Damaged indexes are rebuilt from the rows.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import apsw

from chalicelib.adapters.mail.message import Clock, now_ms
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox_history import NEWEST, NEWEST_OF_EVENT, STATUSES, parse_cursor, record_of
from chalicelib.adapters.sqlite.outbox_table import (
    CREATE_ID_INDEX,
    DAMAGED,
    DELETE_DAMAGED_WITH_ID_OF_ANOTHER,
    INSERT,
    PARKED,
    SELECT_ROW,
    UPDATE_ALL_BLOCKED,
    WAITING,
    Row,
    load,
    read_damaged,
    store,
    verified,
)
from chalicelib.domain.errors import Unusable
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, Parked, Tries
from chalicelib.domain.notifications.delivery_record import DeliveryRecord

T = TypeVar("T")

DONE_RETENTION_MS = 7 * 24 * 3600 * 1000
"""How long sent, dropped and damaged deliveries are kept, to ignore deliveries that are put again."""

_log = logging.getLogger("annals")

_NEXT_OBSERVER = """
SELECT server, observer, at FROM delivery INDEXED BY delivery_due
WHERE state = 0 AND blocked = 0 AND (server, observer) > (?, ?)
ORDER BY server, observer, at LIMIT 1
"""
_DUE = """
SELECT n FROM delivery INDEXED BY delivery_due
WHERE state = 0 AND blocked = 0 AND ?1 = 0 AND server = ?2 AND observer = ?3 AND at <= ?4 ORDER BY at, n LIMIT ?5
"""
_FIRST_IN_QUEUE = """
SELECT n FROM delivery INDEXED BY delivery_order
WHERE state = 0 AND server = ? AND observer = ? AND key = ? AND address = ? ORDER BY n LIMIT 2
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
        put_ms = self._clock()

        def change(connection: apsw.Connection) -> None:
            last_n: int = connection.execute("SELECT coalesce(max(n), 0) FROM delivery").get
            for delivery in deliveries:
                row = _new_row(last_n + 1, delivery, put_ms)
                connection.execute(INSERT, (*row, row.checksum))
                if connection.changes():
                    last_n = row.n
                    _mark_blocked(connection, row)

        if deliveries:
            self._change(change)

    def parked(self, server: int, observer: str, after: str, limit: int) -> list[Parked]:
        query = "SELECT n FROM delivery WHERE state = ? AND server = ? AND observer = ? AND id > ? ORDER BY id LIMIT ?"
        rows = self._find(query, (PARKED, server, observer, after, limit))
        return [Parked(_delivery(row), row.tries, row.error, row.at) for row in rows]

    def retry(self, server: int, observer: str, ids: Sequence[str]) -> int:
        query = "SELECT n FROM delivery WHERE server = ? AND id = ? AND observer = ? AND state = ?"
        now = self._clock()

        def change(connection: apsw.Connection) -> int:
            retried = 0
            for delivery_id in ids:
                n: int | None = connection.execute(query, (server, delivery_id, observer, PARKED)).get
                row = None if n is None else load(connection, n)
                if row is not None and row.state == PARKED:
                    row = row._replace(state=WAITING, tries=0, at=now, error="", since=0, unfinished=0, put=now)
                    store(connection, row)
                    _mark_blocked(connection, row)
                    retried += 1
            return retried

        return self._change(change)

    def counts(self, server: int, observer: str) -> dict[str, int]:
        """Numbers of waiting, parked and recently sent or dropped deliveries."""
        query = "SELECT state, count(*) FROM delivery WHERE server = ? AND observer = ? AND state = ?"
        return {name: self._database.query(query, (server, observer, state))[0][1] for state, name in STATUSES.items()}

    def history(
        self, server: int, observer: str, before: str, limit: int, event: Id | None = None
    ) -> list[DeliveryRecord]:
        """Deliveries of an observer in any state, the newest first, or only those about one event."""
        values: tuple[int | str, ...] = (server, observer, parse_cursor(before), limit)
        if event is not None:
            values += (f"{event}/{observer}", f"{event}/{observer}0")  # Of its ids, "0" follows "/".
        query = NEWEST if event is None else NEWEST_OF_EVENT
        rows = self._load_all(self._query(query, values))
        if None in rows:
            self._repair()
            rows = self._load_all(self._query(query, values))
        return [record_of(row) for row in rows if row and row.state in STATUSES and row.observer == observer]

    def observers_with_due_work(self, at_ms: int) -> Iterator[tuple[int, str]]:
        """Server and name of each observer with deliveries that are due. Takes one query per observer."""
        server, observer = -(2**63), ""
        while rows := self._query(_NEXT_OBSERVER, (server, observer)):
            if list(map(type, rows[0])) != [int, str, int]:
                self._repair()
                rows = self._query(_NEXT_OBSERVER, (server, observer))
                if not rows or list(map(type, rows[0])) != [int, str, int]:
                    return
            ((server, observer, due_ms),) = rows
            if due_ms <= at_ms:
                yield server, observer

    def due(self, server: int, observer: str, at_ms: int, limit: int) -> list[WaitingDelivery]:
        """Deliveries of an observer that are due, the first one first, and not blocked by an earlier one."""
        return list(map(_waiting, self._find(_DUE, (WAITING, server, observer, at_ms, limit))))

    def waiting(self, server: int, observer: str) -> list[WaitingDelivery]:
        """All waiting deliveries of an observer in order, due or not."""
        query = "SELECT n FROM delivery WHERE state = ? AND server = ? AND observer = ? ORDER BY n"
        return list(map(_waiting, self._find(query, (WAITING, server, observer))))

    def record_tries(self, n: int, tries: Tries) -> None:
        """Store the tries. Call it before an attempt, so that one that crashes the process counts too."""

        def change(connection: apsw.Connection) -> None:
            if (row := load(connection, n)) is not None:
                store(connection, _with_tries(row, tries))

        self._change(change)

    def record_outcome(self, n: int, state: int, at_ms: int, error: str = "", tries: Tries | None = None) -> None:
        """Store the new state after an attempt: sent, dropped, parked, or waiting until `at_ms`."""

        def change(connection: apsw.Connection) -> None:
            if (row := load(connection, n)) is not None:
                row = row._replace(state=state, at=at_ms, error=error)
                row = row if tries is None else _with_tries(row, tries)
                store(connection, row)
                if state != WAITING:
                    _mark_blocked(connection, row)

        self._change(change)

    def repair_order(self) -> None:
        """Mark the deliveries that are blocked, and no others. Needed after deliveries were deleted.

        Also rebuilds damaged indexes, in which deliveries may not be found. Reads the whole table.
        """
        if self._query("PRAGMA integrity_check(delivery)") != [("ok",)]:
            self._repair()
        self._change(lambda connection: connection.execute(UPDATE_ALL_BLOCKED))

    def delete_after(self, server: int, session: int) -> int:
        """Delete the deliveries for events after `session` and return how many there were."""
        query = "DELETE FROM delivery WHERE server = ? AND session > ?"
        return self._change(lambda connection: _count_changes(connection, query, (server, session)))

    def delete_done(self, now_ms: int) -> int:
        """Delete some deliveries that ended more than `DONE_RETENTION_MS` ago and return how many."""
        oldest_ms = now_ms - DONE_RETENTION_MS
        return self._change(lambda connection: _count_changes(connection, _DELETE_DONE, (oldest_ms,)))

    def _find(self, query: str, values: tuple[int | str, ...]) -> list[Row]:
        """The rows whose numbers the query finds. Its first three values are the state, the server and the observer.

        If the query finds a damaged row, or one of another observer, the table is repaired and searched again.
        """
        state, *observer = values[:3]
        rows = self._load_all(self._query(query, values))
        if any(row is None or [row.server, row.observer] != observer for row in rows):
            self._repair()
            rows = self._load_all(self._query(query, values))
        # Another thread may have changed the state meanwhile.
        return [row for row in rows if row and [row.state, row.server, row.observer] == [state, *observer]]

    def _load_all(self, numbers: Sequence[tuple[int]]) -> list[Row | None]:
        """The rows with these numbers. None: it is damaged, or there is none."""
        query = f"{SELECT_ROW} WHERE n = ?"
        found = [self._query(query, (n,)) for (n,) in numbers]
        return [verified(stored[0]) if stored else None for stored in found]

    def _query(self, statement: str, values: Sequence[int | str] = ()) -> list[Any]:
        try:
            return self._database.query(statement, values)
        except Unusable:
            self._repair()
            return self._database.query(statement, values)

    def _change(self, change: Callable[[apsw.Connection], T]) -> T:
        """Call `change` in a transaction."""
        try:
            with self._database.transaction() as connection:
                return change(connection)
        except Unusable:
            self._repair()
            with self._database.transaction() as connection:
                return change(connection)

    def _repair(self) -> None:
        """Rebuild the indexes from the rows, and put damaged rows aside. Raises `Unusable` if the table is damaged."""
        with self._database.transaction() as connection:
            connection.execute("DROP INDEX IF EXISTS delivery_id")  # A damaged row may have the id of another one.
            connection.execute("REINDEX delivery")
            known = set(connection.execute("SELECT n FROM delivery WHERE state = ?", (DAMAGED,)))
            damaged = [n for n in read_damaged(connection) if (n,) not in known]
            for n in damaged:
                try:
                    connection.execute("UPDATE delivery SET state = ?, at = ? WHERE n = ?", (DAMAGED, self._clock(), n))
                except apsw.ConstraintError:  # Another column has a value of the wrong type.
                    connection.execute("DELETE FROM delivery WHERE n = ?", (n,))
            connection.execute(DELETE_DAMAGED_WITH_ID_OF_ANOTHER)
            connection.execute(CREATE_ID_INDEX)
            connection.execute(UPDATE_ALL_BLOCKED)
        for n in damaged:
            _log.error("delivery %d in outbox.sqlite is damaged and is not sent. Run `annals check`", n)
        if not damaged:
            _log.error("an index of outbox.sqlite was damaged. It was rebuilt")


def _count_changes(connection: apsw.Connection, statement: str, values: tuple[int, ...]) -> int:
    connection.execute(statement, values)
    return connection.changes()


def _mark_blocked(connection: apsw.Connection, changed: Row) -> None:
    """Mark the deliveries of a queue as blocked or not, after one of them has entered or left it."""
    queue = (changed.server, changed.observer, changed.key, changed.address)
    first = [n for (n,) in connection.execute(_FIRST_IN_QUEUE, queue)]
    blocked = {n: position > 0 for position, n in enumerate(first)}
    if changed.state == WAITING:
        blocked.setdefault(changed.n, True)
    for n, is_blocked in blocked.items():
        connection.execute("UPDATE delivery SET blocked = ?1 WHERE n = ?2 AND blocked != ?1", (int(is_blocked), n))


def _new_row(n: int, delivery: Delivery, put_ms: int) -> Row:
    return Row(
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
        until=delivery.until,
        events=delivery.count,
        samples=" ".join(map(str, delivery.samples)),
    )


def _with_tries(row: Row, tries: Tries) -> Row:
    return row._replace(tries=tries.count, since=tries.since_ms, unfinished=tries.unfinished)


def _waiting(row: Row) -> WaitingDelivery:
    return WaitingDelivery(row.n, Tries(row.tries, row.since, row.unfinished), row.at, row.put, _delivery(row))


def _delivery(row: Row) -> Delivery:
    event = Id(row.server, row.session, row.instance)
    samples = tuple(map(Id.parse, row.samples.split()))
    return Delivery(
        row.id, row.server, row.observer, event, row.key, row.address, row.replay, row.until, row.events, samples
    )
