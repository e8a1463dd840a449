"""Load generator for Annals without its server: the services on SQLite, in this process."""

from collections.abc import Callable, Iterator

from pydantic_core import from_json

from benchmarks.load import annals_store, generator
from benchmarks.load.dataset import PlainEvent
from benchmarks.load.generator import APPENDED_EVENT, QueryKind
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.reading.latest import latest
from chalicelib.settings import Settings
from chalicelib.wiring import build_local


class AnnalsService:
    """The log in the data directory `address`."""

    def __init__(self, address: str, token: str) -> None:
        del token
        self._components = build_local(Settings.from_environment({"DATA_DIR": address}))
        self._server = annals_store.SERVER

    def store(self, events: Iterator[PlainEvent]) -> None:
        """Not supported: the data directory of the server is copied."""
        raise NotImplementedError

    def appender(self, events: int) -> Callable[[], None]:
        """Publish, and wait until the commit is durable."""
        batch = [APPENDED_EVENT] * events

        def append() -> None:
            outcome = self._components.log.publisher.publish(
                self._server, [annals_store.new_event(event) for event in batch]
            )
            if not isinstance(outcome, Appended) or outcome.commit.event_count != events:
                raise AssertionError(f"published {events} events, got {outcome}")

        return append

    def pages(self) -> Iterator[int]:
        """Read the feed page by page without decoding events."""
        return map(len, self._pages())

    def decoded_events(self) -> Iterator[PlainEvent]:
        return (_plain_event(text) for page in self._pages() for text in page)

    def querier(self, kind: QueryKind) -> Callable[[str], list[PlainEvent]]:
        """The feed of a key or a type, or the last event of a type."""
        match kind:
            case "key":
                return lambda key: [_plain_event(text) for text in self._after(0, Selection(keys=(key,)))[1]]
            case "type":
                return lambda name: [_plain_event(text) for text in self._after(0, _type_filter(name))[1]]
            case "latest":
                return lambda name: [_plain_event(text) for text in self._latest(name)]

    def follower(self) -> Callable[[], int]:
        """Not supported without a server."""
        raise NotImplementedError

    def _pages(self) -> Iterator[list[str]]:
        after, page = self._after(0, Selection())
        while page:
            yield page
            after, page = self._after(after, Selection())

    def _after(self, after: int, selection: Selection) -> tuple[int, list[str]]:
        components = self._components
        match long_poll_blocking(
            FeedQuery(self._server, selection, after),
            components.log.reader,
            components.log.notifier,
            components.log.retention,
        ):
            case NonEmpty(event_id, wires):
                return event_id, wires
            case _:
                return after, []

    def _latest(self, name: str) -> list[str]:
        return latest(
            [self._server], _type_filter(name), self._components.log.reader, self._components.log.retention, 100
        ).texts


def _type_filter(name: str) -> Selection:
    return Selection.model_validate({"types": [name]})


def _plain_event(text: str) -> PlainEvent:
    # Decoded by the JSON parser that Annals itself uses, as the eventsourcing benchmark does with its transcoder.
    event = from_json(text)
    return tuple(event["type"]), event["key"], event["payload"]["data"]


if __name__ == "__main__":
    generator.main(AnnalsService)
