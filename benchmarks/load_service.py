"""The load generator for Annals without its server: the services on SQLite, in this process."""

from collections.abc import Callable, Iterator

from pydantic_core import from_json

from benchmarks import history, load
from benchmarks.load import APPENDED, Question
from benchmarks.past import Told
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.services.feeds.feed import FeedQuery, follow
from chalicelib.services.reading.latest import latest
from chalicelib.settings import Settings
from chalicelib.wiring import embedded


class Service:
    """The log in the data directory `address`."""

    def __init__(self, address: str, token: str) -> None:
        del token
        self._parts = embedded(Settings.from_environment({"DATA_DIR": address}))
        self._server = history.SERVER

    def store(self, events: Iterator[Told]) -> None:
        """Not from here: the server's data are copied."""
        raise NotImplementedError

    def appender(self, events: int) -> Callable[[], None]:
        """Publish; the commit is there when it is durable."""
        wanted = [APPENDED] * events

        def append() -> None:
            outcome = self._parts.publish(self._server, [history.new_event(told) for told in wanted]).result()
            if not isinstance(outcome, Appended) or outcome.commit.n != events:
                raise AssertionError(f"published {events} events, told {outcome}")

        return append

    def pages(self) -> Iterator[int]:
        """Follow the feed page by page; events stay text."""
        return map(len, self._pages())

    def told(self) -> Iterator[Told]:
        """Each event, page by page."""
        return (_told(text) for page in self._pages() for text in page)

    def asker(self, question: Question) -> Callable[[str], list[Told]]:
        """The feed of a key or of a type, and the last of a type."""
        match question:
            case "key":
                return lambda key: [_told(text) for text in self._after(0, Selection(keys=(key,)))[1]]
            case "type":
                return lambda name: [_told(text) for text in self._after(0, _of_type(name))[1]]
            case "latest":
                return lambda name: [_told(text) for text in self._latest(name)]

    def follower(self) -> Callable[[], int]:
        """Not without the server."""
        raise NotImplementedError

    def _pages(self) -> Iterator[list[str]]:
        after, page = self._after(0, Selection())
        while page:
            yield page
            after, page = self._after(after, Selection())

    def _after(self, after: int, selection: Selection) -> tuple[int, list[str]]:
        parts = self._parts
        match follow(FeedQuery(self._server, selection, after), parts.present, parts.wake, parts.retention):
            case NonEmpty(event_id, wires):
                return event_id, wires
            case _:
                return after, []

    def _latest(self, name: str) -> list[str]:
        return latest([self._server], _of_type(name), self._parts.present, self._parts.retention).wires


def _of_type(name: str) -> Selection:
    return Selection.model_validate({"types": [name]})


def _told(text: str) -> Told:
    """Read by what reads all JSON here, as eventsourcing is read by what its own transcoder reads with."""
    event = from_json(text)
    return tuple(event["type"]), event["key"], event["payload"]["data"]


if __name__ == "__main__":
    load.main(Service)
