"""The load generator for eventsourcing: its recorder on SQLite, in this process. Runs in its own venv."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from uuid import uuid4

from eventsourcing.persistence import Notification, StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from benchmarks import load
from benchmarks.events import DATA, KEY, TYPE
from benchmarks.load import Question
from benchmarks.past import Told

TOGETHER = 1_000
"""Events in one transaction while the log is filled, and in one page while it is read."""
CLIENTS = 16
SYNCED = 2
"""What SQLite calls FULL: a transaction is on the disk when it ends."""


class EventSourcing:
    """The file in the directory `address`. A type is a topic, a key the id of an originator."""

    def __init__(self, address: str, token: str) -> None:
        del token
        # Its own pool is too small for 16 threads that write.
        store = SQLiteDatastore(f"file:{address}/events.sqlite", pool_size=CLIENTS, originator_id_type="text")
        self._recorder = SQLiteApplicationRecorder(store)
        self._recorder.create_table()
        with store.transaction(commit=False) as cursor:
            cursor.execute("PRAGMA synchronous")
            if cursor.fetchone()[0] != SYNCED:
                raise AssertionError("transactions are not synced to the disk")

    def store(self, events: Iterator[Told]) -> None:
        """In large transactions."""
        versions: Counter[str] = Counter()
        while batch := list(islice(events, TOGETHER)):
            stored = []
            for told in batch:
                versions[told[1]] += 1
                stored.append(_stored(told, told[1], versions[told[1]]))
            self._recorder.insert_events(stored)

    def appender(self, events: int) -> Callable[[], None]:
        """Insert events of one originator, whose versions have no gaps; each client has its own."""
        originator, version = f"{KEY}#{uuid4().hex}", 0

        def append() -> None:
            nonlocal version
            batch = [_stored((tuple(TYPE), KEY, DATA), originator, version + n) for n in range(1, events + 1)]
            numbers = self._recorder.insert_events(batch)
            if numbers is None or len(numbers) != events:
                raise AssertionError(f"inserted {events} events, told {numbers}")
            version += events

        return append

    def pages(self) -> Iterator[int]:
        """Select notifications page by page; their states stay bytes."""
        return map(len, self._pages())

    def told(self) -> Iterator[Told]:
        """Each event, page by page."""
        return (_told(found) for page in self._pages() for found in page)

    def asker(self, question: Question) -> Callable[[str], list[Told]]:
        """The events of an originator, and the notifications of a topic; there is no way to ask for the last of one."""
        match question:
            case "key":
                return lambda key: [_told(found) for found in self._recorder.select_events(key)]
            case "type":
                return lambda topic: [
                    _told(found) for found in self._recorder.select_notifications(1, TOGETHER, topics=[topic])
                ]
            case "latest":
                raise NotImplementedError

    def follower(self) -> Callable[[], int]:
        """Not on SQLite."""
        raise NotImplementedError

    def _pages(self) -> Iterator[list[Notification]]:
        last = 0
        while page := list(self._recorder.select_notifications(last + 1, TOGETHER)):
            last = page[-1].id
            yield page


def _stored(told: Told, originator: str, version: int) -> StoredEvent:
    event_type, _, data = told
    return StoredEvent(originator, version, "/".join(event_type), json.dumps(data, separators=(",", ":")).encode())


def _told(stored: StoredEvent) -> Told:
    key = str(stored.originator_id).partition("#")[0]
    return tuple(stored.topic.split("/")), key, json.loads(stored.state)


if __name__ == "__main__":
    load.main(EventSourcing)
