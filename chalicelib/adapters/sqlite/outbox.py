"""The port `Outbox` on SQLite, in a file of its own: deliveries come and go without a thought for the log's writers."""

from collections.abc import Sequence
from dataclasses import dataclass

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, Parked

WAITING, PARKED, SENT, DROPPED = range(4)
_STATES = {WAITING: "waiting", PARKED: "parked", SENT: "sent", DROPPED: "dropped"}

KEPT_MS = 7 * 24 * 3600 * 1000
"""How long it is remembered that a delivery was made: a repeat is dropped for so long."""

SCHEMA = """
CREATE TABLE delivery (
    n        INTEGER PRIMARY KEY,  -- the order in which they were put
    server   INTEGER NOT NULL,
    observer TEXT NOT NULL,
    id       TEXT NOT NULL,
    session  INTEGER NOT NULL,     -- the event's
    instance INTEGER NOT NULL,
    key      TEXT NOT NULL,        -- what has the same observer and key is told in order
    address  TEXT NOT NULL,
    replay   TEXT NOT NULL,
    state    INTEGER NOT NULL,     -- 0 waiting, 1 parked, 2 sent, 3 dropped
    tries    INTEGER NOT NULL,
    at       INTEGER NOT NULL,     -- milliseconds: when it is due, or what came of it
    error    TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX delivery_id ON delivery (server, id);
CREATE INDEX delivery_state ON delivery (state, server, observer, n);
CREATE INDEX delivery_done ON delivery (at) WHERE state >= 2;
"""

_PUT = """
INSERT INTO delivery (server, observer, id, session, instance, key, address, replay, state, tries, at, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, '') ON CONFLICT DO NOTHING
"""
_SELECT = """
SELECT n, tries, at, error, id, server, observer, session, instance, key, address, replay
FROM delivery WHERE state = ? AND server = ? AND observer = ?
"""
_AGAIN = """
UPDATE delivery SET state = 0, tries = 0, at = 0, error = ''
WHERE state = 1 AND server = ? AND observer = ? AND id = ?
"""
_FORGET = "DELETE FROM delivery WHERE n IN (SELECT n FROM delivery WHERE state >= 2 AND at < ? LIMIT 1000)"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A delivery that is to be tried, and how often it was."""

    n: int
    tries: int
    due_ms: int
    delivery: Delivery


class SqliteOutbox:
    """The outbox of all servers in one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Keep them durably, in this order; those that were put before are not put again."""
        if deliveries:
            with self._database.writing() as connection:
                connection.executemany(_PUT, map(_row, deliveries))

    def parked(self, server: int, observer: str, after: str, most: int) -> list[Parked]:
        """Those that nobody tries any more, after the one with the id `after`, in order of their ids."""
        values = (PARKED, server, observer, after, most)
        with self._database.reading() as connection:
            rows = connection.execute(f"{_SELECT} AND id > ? ORDER BY id LIMIT ?", values).fetchall()
        return [Parked(_delivery(row), row[1], row[3], row[2]) for row in rows]

    def retry(self, server: int, observer: str, ids: Sequence[str]) -> int:
        """Try parked ones again, from the first of five tries; how many there were."""
        with self._database.writing() as connection:
            return sum(connection.execute(_AGAIN, (server, observer, one)).rowcount for one in ids)

    def counts(self, server: int, observer: str) -> dict[str, int]:
        """How many are waiting or parked, and were sent or dropped lately."""
        query = "SELECT state, count(*) FROM delivery WHERE server = ? AND observer = ? AND state = ?"
        with self._database.reading() as connection:
            rows = [connection.execute(query, (server, observer, state)).fetchone() for state in _STATES]
        return {name: row[1] for name, row in zip(_STATES.values(), rows, strict=True)}

    def lanes(self) -> list[tuple[int, str]]:
        """The observers for whom something waits."""
        query = "SELECT DISTINCT server, observer FROM delivery WHERE state = ?"
        with self._database.reading() as connection:
            return connection.execute(query, (WAITING,)).fetchall()

    def waiting(self, server: int, observer: str, after: int, most: int) -> list[Waiting]:
        """What waits for an observer, in order, due or not."""
        values = (WAITING, server, observer, after, most)
        with self._database.reading() as connection:
            rows = connection.execute(f"{_SELECT} AND n > ? ORDER BY n LIMIT ?", values).fetchall()
        return [Waiting(row[0], row[1], row[2], _delivery(row)) for row in rows]

    def try_now(self, n: int) -> None:
        """Count a try before it is made: one that ends the process counts too."""
        with self._database.writing() as connection:
            connection.execute("UPDATE delivery SET tries = tries + 1 WHERE n = ?", (n,))

    def settle(self, n: int, state: int, at_ms: int, error: str = "") -> None:
        """Keep what came of a try: sent, dropped, parked, or waiting until `at_ms`."""
        with self._database.writing() as connection:
            connection.execute("UPDATE delivery SET state = ?, at = ?, error = ? WHERE n = ?", (state, at_ms, error, n))

    def forget_after(self, server: int, session: int) -> int:
        """Forget what is about sessions after this one; how many."""
        with self._database.writing() as connection:
            query = "DELETE FROM delivery WHERE server = ? AND session > ?"
            return connection.execute(query, (server, session)).rowcount

    def forget(self, now_ms: int) -> int:
        """Forget some of what was done long ago; how many."""
        with self._database.writing() as connection:
            return connection.execute(_FORGET, (now_ms - KEPT_MS,)).rowcount


def _row(one: Delivery) -> tuple[int | str, ...]:
    return (
        one.server,
        one.observer,
        one.id,
        one.event.session,
        one.event.instance,
        one.key,
        one.address,
        one.replay,
    )


def _delivery(row: tuple[int, int, int, str, str, int, str, int, int, str, str, str]) -> Delivery:
    _, _, _, _, name, server, observer, session, instance, key, address, replay = row
    return Delivery(name, server, observer, Id(server, session, instance), key, address, replay)
