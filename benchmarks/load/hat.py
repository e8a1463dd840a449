"""Load generator for hat-event with its eventer client. Runs in its own venv."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeVar

from hat.drivers import tcp
from hat.event import common, eventer
from hat.event.backends import lmdb

from benchmarks.load import generator
from benchmarks.load.dataset import PlainEvent
from benchmarks.load.generator import QueryKind, Stopwatch
from benchmarks.load.job_events import DATA, KEY, TYPE

FILL_BATCH = 1_000
"""Events per session while the log is filled, and per response while it is read."""
SERVER = 1
CLIENT_NAME = "bench"

Result = TypeVar("Result")


class Connection:
    """A client and its event loop."""

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
                CLIENT_NAME,
                subscriptions=subscriptions,
                events_cb=lambda _, events: self.arrived.put_nowait(len(list(events))),
            )
        )

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self._loop.run_until_complete(coroutine)

    async def register(self, events: list[Any]) -> None:
        """Append, and wait for the response: the events with their ids."""
        registered = await self._client.register(events, with_response=True)
        if registered is None or len(registered) != len(events):
            raise AssertionError(f"registered {len(events)} events, got {registered}")

    def query(self, params: Any) -> Any:
        return self.run(self._client.query(params))


class Hat:
    """hat-event at `address`. It has no keys: the key is the last part of the type."""

    def __init__(self, address: str, token: str) -> None:
        del token
        self._address = address

    def store(self, events: Iterator[PlainEvent]) -> None:
        """Write through the server's backend before it starts. `address` is the path of its configuration."""
        configuration = json.loads(Path(self._address).read_text())
        asyncio.run(_fill(configuration["backend"], events))

    def appender(self, events: int) -> Callable[[], None]:
        """Register with a response, which arrives before anything is on disk."""
        connection = Connection(self._address)
        return lambda: connection.run(connection.register([_APPENDED_EVENT] * events))

    def connections(self, loop: asyncio.AbstractEventLoop, number: int) -> list[Connection]:
        return [Connection(self._address, loop=loop) for _ in range(number)]

    def pages(self) -> Iterator[int]:
        """Query the events page by page. The client always decodes them."""
        return map(len, self._pages())

    def decoded_events(self) -> Iterator[PlainEvent]:
        return (_plain_event(event) for page in self._pages() for event in page)

    def querier(self, kind: QueryKind) -> Callable[[str], list[PlainEvent]]:
        """Queries of the time series by type."""
        connection = Connection(self._address)

        def run_query(argument: str) -> list[PlainEvent]:
            pattern = ("?", "?", "?", "?", argument) if kind == "key" else (*argument.split("/"), "?")
            params = common.QueryTimeseriesParams([pattern], max_results=1 if kind == "latest" else None)
            return [_plain_event(event) for event in connection.query(params).events]

        return run_query

    def follower(self) -> Callable[[], int]:
        """A subscription to all job events, notified before anything is on disk."""
        connection = Connection(self._address, (("job", "*"),))
        return lambda: connection.run(connection.arrived.get())

    def _pages(self) -> Iterator[list[Any]]:
        connection, last, more = Connection(self._address), None, True
        while more:
            params = common.QueryServerParams(SERVER, max_results=FILL_BATCH, last_event_id=last)
            result = connection.query(params)
            events, more = list(result.events), result.more_follows
            if events:
                last = events[-1].id
                yield events


async def _fill(configuration: Any, events: Iterator[PlainEvent]) -> None:
    backend = await lmdb.info.create(configuration, None, None)
    for session in count(1):
        batch = [_event(*event) for event in islice(events, FILL_BATCH)]
        if not batch:
            break
        now = common.now()
        ids = (common.EventId(SERVER, session, instance) for instance in count(1))
        await backend.register(
            [common.Event(id_, event.type, now, None, event.payload) for id_, event in zip(ids, batch, strict=False)]
        )
    await backend.flush()
    await backend.async_close()


def _event(event_type: tuple[str, ...], key: str, data: Any) -> Any:
    return common.RegisterEvent((*event_type, key), None, common.EventPayloadJson(data))


def _plain_event(event: Any) -> PlainEvent:
    *event_type, key = event.type
    return tuple(event_type), key, event.payload.data


def run_in_tasks(peer: Hat, clients: int, events: int) -> Callable[[Sequence[Stopwatch]], None]:
    """Run each client as a task of one event loop, as applications of hat-event do."""
    loop = asyncio.new_event_loop()
    connections = peer.connections(loop, clients)

    async def run_client(connection: Connection, watch: Stopwatch) -> None:
        while watch.has_time():
            await connection.register([_APPENDED_EVENT] * events)
            watch.record()

    async def run(watches: Sequence[Stopwatch]) -> None:
        await asyncio.gather(*map(run_client, connections, watches))

    return lambda watches: loop.run_until_complete(run(watches))


_APPENDED_EVENT = _event(tuple(TYPE), KEY, DATA)


if __name__ == "__main__":
    generator.main(Hat, run_in_tasks)
