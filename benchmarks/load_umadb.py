"""The load generator for UmaDB: its own client. Runs in its own venv: standard library and umadb only."""

import json
from collections.abc import Callable, Iterator
from itertools import islice

import umadb

from benchmarks import load
from benchmarks.events import DATA_TEXT, KEY, TYPE
from benchmarks.load import Question
from benchmarks.past import Told

TOGETHER = 1_000
"""Events in one append while the log is filled."""

_TYPE = "/".join(TYPE)
_DATA = DATA_TEXT.encode()


class UmaDb:
    """UmaDB at `address`. A type is its type, a key is a tag."""

    def __init__(self, address: str, token: str) -> None:
        del token
        self._url = f"http://{address}"
        self._clients: list[umadb.Client] = []
        """Kept: when a client goes, whatever it reads is cancelled."""

    def store(self, events: Iterator[Told]) -> None:
        """In large appends."""
        client = self._client()
        while batch := [_event(*told) for told in islice(events, TOGETHER)]:
            client.append(batch)

    def appender(self, events: int) -> Callable[[], None]:
        """Append; it returns a position when they are durable."""
        client = self._client()
        batch = [umadb.Event(_TYPE, _DATA, [KEY]) for _ in range(events)]
        last = 0

        def append() -> None:
            nonlocal last
            position = client.append(batch)
            if position < last + events:
                raise AssertionError(f"appended {events} events after {last}, told {position}")
            last = position

        return append

    def pages(self) -> Iterator[int]:
        """Read by batches, as many as the server sends in one message; events are not looked into."""
        response = self._client().read()
        while batch := response.next_batch():
            yield len(batch)

    def told(self) -> Iterator[Told]:
        """Each event, in batches; positions have no gaps."""
        response, last = self._client().read(), 0
        while batch := response.next_batch():
            for sequenced in batch:
                last += 1
                if sequenced.position != last:
                    raise AssertionError(f"position {sequenced.position} instead of {last}")
                yield _told(sequenced)

    def asker(self, question: Question) -> Callable[[str], list[Told]]:
        """Queries by tag and by type; the last of a type is the first, read backwards."""
        client = self._client()

        def ask(subject: str) -> list[Told]:
            wanted = umadb.QueryItem(tags=[subject]) if question == "key" else umadb.QueryItem(types=[subject])
            query = umadb.Query([wanted])
            if question == "latest":
                return [_told(found) for found in client.read(query, backwards=True, limit=1)]
            return [_told(found) for found in client.read(query)]

        return ask

    def follower(self) -> Callable[[], int]:
        """A subscription from the present end."""
        client = self._client()
        subscription = client.subscribe(after=client.head())
        return lambda: len(subscription.next_batch())

    def _client(self) -> umadb.Client:
        self._clients.append(umadb.Client(self._url))
        return self._clients[-1]


def _event(event_type: tuple[str, ...], key: str, data: object) -> umadb.Event:
    return umadb.Event("/".join(event_type), json.dumps(data, separators=(",", ":")).encode(), [key])


def _told(sequenced: umadb.SequencedEvent) -> Told:
    event = sequenced.event
    return tuple(event.event_type.split("/")), event.tags[0], json.loads(event.data)


if __name__ == "__main__":
    load.main(UmaDb)
