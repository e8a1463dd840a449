"""Load generator for eventsourcing: its SQLite recorder, in this process. Runs in its own venv."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from uuid import uuid4

from eventsourcing.persistence import Notification, StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from benchmarks.load import generator
from benchmarks.load.dataset import PlainEvent
from benchmarks.load.generator import QueryKind
from benchmarks.load.job_events import DATA, KEY, TYPE

FILL_BATCH = 1_000
"""Events per transaction while the log is filled, and per page while it is read."""
CLIENTS = 16
SYNCHRONOUS_FULL = 2
"""`PRAGMA synchronous` value: a transaction is on disk when it ends."""


class EventSourcing:
    """The database in the directory `address`. A type is a topic, a key is an originator id."""

    def __init__(self, address: str, token: str) -> None:
        del token
        # The default pool is too small for 16 writing threads.
        store = SQLiteDatastore(f"file:{address}/events.sqlite", pool_size=CLIENTS, originator_id_type="text")
        self._recorder = SQLiteApplicationRecorder(store)
        self._recorder.create_table()
        with store.transaction(commit=False) as cursor:
            cursor.execute("PRAGMA synchronous")
            if cursor.fetchone()[0] != SYNCHRONOUS_FULL:
                raise AssertionError("transactions are not synced to disk")

    def store(self, events: Iterator[PlainEvent]) -> None:
        versions: Counter[str] = Counter()
        while batch := list(islice(events, FILL_BATCH)):
            stored = []
            for event in batch:
                versions[event[1]] += 1
                stored.append(_stored_event(event, event[1], versions[event[1]]))
            self._recorder.insert_events(stored)

    def appender(self, events: int) -> Callable[[], None]:
        """Insert events of one originator per client, because versions must have no gaps."""
        originator, version = f"{KEY}#{uuid4().hex}", 0

        def append() -> None:
            nonlocal version
            batch = [_stored_event((tuple(TYPE), KEY, DATA), originator, version + n) for n in range(1, events + 1)]
            numbers = self._recorder.insert_events(batch)
            if numbers is None or len(numbers) != events:
                raise AssertionError(f"inserted {events} events, got {numbers}")
            version += events

        return append

    def pages(self) -> Iterator[int]:
        """Select notifications page by page without decoding them."""
        return map(len, self._pages())

    def decoded_events(self) -> Iterator[PlainEvent]:
        return (_plain_event(notification) for page in self._pages() for notification in page)

    def querier(self, kind: QueryKind) -> Callable[[str], list[PlainEvent]]:
        """The events of an originator or the notifications of a topic. There is no query for the last one."""
        match kind:
            case "key":
                return lambda key: [_plain_event(event) for event in self._recorder.select_events(key)]
            case "type":
                return lambda topic: [
                    _plain_event(event) for event in self._recorder.select_notifications(1, FILL_BATCH, topics=[topic])
                ]
            case "latest":
                raise NotImplementedError

    def follower(self) -> Callable[[], int]:
        """Not supported on SQLite."""
        raise NotImplementedError

    def _pages(self) -> Iterator[list[Notification]]:
        last = 0
        while page := list(self._recorder.select_notifications(last + 1, FILL_BATCH)):
            last = page[-1].id
            yield page


def _stored_event(event: PlainEvent, originator: str, version: int) -> StoredEvent:
    event_type, _, data = event
    return StoredEvent(originator, version, "/".join(event_type), json.dumps(data, separators=(",", ":")).encode())


def _plain_event(stored: StoredEvent) -> PlainEvent:
    key = str(stored.originator_id).partition("#")[0]
    return tuple(stored.topic.split("/")), key, json.loads(stored.state)


if __name__ == "__main__":
    generator.main(EventSourcing)
