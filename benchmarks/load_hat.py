"""The load generator for hat-event: its own eventer client. Runs in its own venv, with the standard library."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeVar

from hat.drivers import tcp
from hat.event import common, eventer
from hat.event.backends import lmdb

from benchmarks import load
from benchmarks.events import DATA, KEY, TYPE
from benchmarks.load import Question, Stopwatch
from benchmarks.past import Told

TOGETHER = 1_000
"""Events of one session while the log is filled, and of one answer while it is read."""
SERVER = 1
NAME = "bench"

Found = TypeVar("Found")


class Connection:
    """A client, and the loop it runs in."""

    def __init__(
        self,
        address: str,
        subscriptions: tuple[tuple[str, ...], ...] = (),
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        host, _, port = address.rpartition(":")
        self._loop = loop or asyncio.new_event_loop()
        self.arrived: asyncio.Queue[int] = asyncio.Queue()
        self._client = self.run(
            eventer.connect(
                tcp.Address(host, int(port)),
                NAME,
                subscriptions=subscriptions,
                events_cb=lambda _, events: self.arrived.put_nowait(len(list(events))),
            )
        )

    def run(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Its outcome; the loop runs meanwhile."""
        return self._loop.run_until_complete(work)

    async def register(self, events: list[Any]) -> None:
        """Append, and take the answer: the events with their ids."""
        found = await self._client.register(events, with_response=True)
        if found is None or len(found) != len(events):
            raise AssertionError(f"registered {len(events)} events, told {found}")

    def query(self, params: Any) -> Any:
        """The answer to one query."""
        return self.run(self._client.query(params))


class Hat:
    """hat-event at `address`. It knows no keys: the key is the last part of the type."""

    def __init__(self, address: str, token: str) -> None:
        del token
        self._address = address

    def store(self, events: Iterator[Told]) -> None:
        """By the server's own backend, before that starts: `address` is the path of its configuration."""
        configuration = json.loads(Path(self._address).read_text())
        asyncio.run(_stored(configuration["backend"], events))

    def appender(self, events: int) -> Callable[[], None]:
        """Register with a response, which comes before anything is on the disk."""
        connection = Connection(self._address)
        return lambda: connection.run(connection.register([_APPENDED] * events))

    def connections(self, loop: asyncio.AbstractEventLoop, number: int) -> list[Connection]:
        """So many in one loop."""
        return [Connection(self._address, loop=loop) for _ in range(number)]

    def pages(self) -> Iterator[int]:
        """Query the server's events page by page; the client decodes all of them."""
        return map(len, self._pages())

    def told(self) -> Iterator[Told]:
        """Each event, page by page."""
        return (_told(event) for page in self._pages() for event in page)

    def asker(self, question: Question) -> Callable[[str], list[Told]]:
        """Queries of the time series by type."""
        connection = Connection(self._address)

        def ask(subject: str) -> list[Told]:
            wanted = ("?", "?", "?", "?", subject) if question == "key" else (*subject.split("/"), "?")
            params = common.QueryTimeseriesParams([wanted], max_results=1 if question == "latest" else None)
            return [_told(event) for event in connection.query(params).events]

        return ask

    def follower(self) -> Callable[[], int]:
        """A subscription to all types, told before anything is on the disk."""
        connection = Connection(self._address, (("job", "*"),))
        return lambda: connection.run(connection.arrived.get())

    def _pages(self) -> Iterator[list[Any]]:
        connection, last, more = Connection(self._address), None, True
        while more:
            params = common.QueryServerParams(SERVER, max_results=TOGETHER, last_event_id=last)
            result = connection.query(params)
            events, more = list(result.events), result.more_follows
            if events:
                last = events[-1].id
                yield events


async def _stored(configuration: Any, events: Iterator[Told]) -> None:
    backend = await lmdb.info.create(configuration, None, None)
    for session in count(1):
        batch = [_event(*told) for told in islice(events, TOGETHER)]
        if not batch:
            break
        now = common.now()
        ids = (common.EventId(SERVER, session, instance) for instance in count(1))
        await backend.register(
            [common.Event(one, each.type, now, None, each.payload) for one, each in zip(ids, batch, strict=False)]
        )
    await backend.flush()
    await backend.async_close()


def _event(event_type: tuple[str, ...], key: str, data: Any) -> Any:
    return common.RegisterEvent((*event_type, key), None, common.EventPayloadJson(data))


def _told(event: Any) -> Told:
    *event_type, key = event.type
    return tuple(event_type), key, event.payload.data


def in_tasks(peer: Hat, clients: int, events: int) -> Callable[[Sequence[Stopwatch]], None]:
    """Each client is a task of one loop, as its users have it."""
    loop = asyncio.new_event_loop()
    connections = peer.connections(loop, clients)

    async def repeatedly(connection: Connection, watch: Stopwatch) -> None:
        while watch.goes():
            await connection.register([_APPENDED] * events)
            watch.done()

    async def run(watches: Sequence[Stopwatch]) -> None:
        await asyncio.gather(*map(repeatedly, connections, watches))

    return lambda watches: loop.run_until_complete(run(watches))


_APPENDED = _event(tuple(TYPE), KEY, DATA)


if __name__ == "__main__":
    load.main(Hat, in_tasks)
