"""Load generator for UmaDB with its own client. Runs in its venv: standard library and umadb only."""

import json
from collections.abc import Callable, Iterator
from itertools import islice

import umadb

from benchmarks.load import generator
from benchmarks.load.dataset import PlainEvent
from benchmarks.load.generator import QueryKind
from benchmarks.load.job_events import DATA_TEXT, KEY, TYPE

FILL_BATCH = 1_000
"""Events per append while the log is filled."""

_TYPE = "/".join(TYPE)
_DATA = DATA_TEXT.encode()


class UmaDb:
    """UmaDB at `address`. A key is stored as a tag."""

    def __init__(self, address: str, token: str) -> None:
        del token
        self._url = f"http://{address}"
        self._clients: list[umadb.Client] = []
        """Keeps clients alive: destroying a client cancels its reads."""

    def store(self, events: Iterator[PlainEvent]) -> None:
        client = self._client()
        while batch := [_event(*event) for event in islice(events, FILL_BATCH)]:
            client.append(batch)

    def appender(self, events: int) -> Callable[[], None]:
        """Append, which returns a position once the events are durable."""
        client = self._client()
        batch = [umadb.Event(_TYPE, _DATA, [KEY]) for _ in range(events)]
        last = 0

        def append() -> None:
            nonlocal last
            position = client.append(batch)
            if position < last + events:
                raise AssertionError(f"appended {events} events after {last}, but the response says {position}")
            last = position

        return append

    def pages(self) -> Iterator[int]:
        """Read in the batches that the server sends, without decoding events."""
        response = self._client().read()
        while batch := response.next_batch():
            yield len(batch)

    def decoded_events(self) -> Iterator[PlainEvent]:
        """Read in batches, checking that positions have no gaps."""
        response, last = self._client().read(), 0
        while batch := response.next_batch():
            for sequenced in batch:
                last += 1
                if sequenced.position != last:
                    raise AssertionError(f"position {sequenced.position} instead of {last}")
                yield _plain_event(sequenced)

    def querier(self, kind: QueryKind) -> Callable[[str], list[PlainEvent]]:
        """Queries by tag or type. The last event of a type is the first one when reading backwards."""
        client = self._client()

        def run_query(argument: str) -> list[PlainEvent]:
            item = umadb.QueryItem(tags=[argument]) if kind == "key" else umadb.QueryItem(types=[argument])
            query = umadb.Query([item])
            if kind == "latest":
                return [_plain_event(event) for event in client.read(query, backwards=True, limit=1)]
            return [_plain_event(event) for event in client.read(query)]

        return run_query

    def follower(self) -> Callable[[], int]:
        """A subscription from the current end."""
        client = self._client()
        subscription = client.subscribe(after=client.head())
        return lambda: len(subscription.next_batch())

    def _client(self) -> umadb.Client:
        self._clients.append(umadb.Client(self._url))
        return self._clients[-1]


def _event(event_type: tuple[str, ...], key: str, data: object) -> umadb.Event:
    return umadb.Event("/".join(event_type), json.dumps(data, separators=(",", ":")).encode(), [key])


def _plain_event(sequenced: umadb.SequencedEvent) -> PlainEvent:
    event = sequenced.event
    return tuple(event.event_type.split("/")), event.tags[0], json.loads(event.data)


if __name__ == "__main__":
    generator.main(UmaDb)
