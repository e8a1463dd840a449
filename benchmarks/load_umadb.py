"""The load generator for UmaDB: its own client. Runs in its own venv: standard library and umadb only."""

from collections.abc import Callable, Iterator

import umadb

from benchmarks import load
from benchmarks.events import DATA_TEXT, KEY, TYPE

_TYPE = "/".join(TYPE)
_DATA = DATA_TEXT.encode()


class UmaDb:
    """UmaDB at `address`."""

    def __init__(self, address: str, token: str) -> None:
        del token
        self._url = f"http://{address}"
        self._clients: list[umadb.Client] = []
        """Kept: when a client goes, whatever it reads is cancelled."""

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
        """Read by batches, as many as the server sends in one message; events are counted, not looked into."""
        response = self._client().read()
        while batch := response.next_batch():
            yield len(batch)

    def follower(self) -> Callable[[], int]:
        """A subscription from the present end."""
        client = self._client()
        subscription = client.subscribe(after=client.head())
        return lambda: len(subscription.next_batch())

    def verified(self) -> int:
        """Each event looked at: its position the next one, its content what was appended."""
        total = 0
        for total, sequenced in enumerate(self._client().read(), start=1):
            event = sequenced.event
            if (sequenced.position, event.event_type, event.data, event.tags) != (total, _TYPE, _DATA, [KEY]):
                raise AssertionError(f"not what was appended, or not in order: {sequenced}")
        return total

    def _client(self) -> umadb.Client:
        self._clients.append(umadb.Client(self._url))
        return self._clients[-1]


if __name__ == "__main__":
    load.main(UmaDb)
