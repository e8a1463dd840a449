"""A log with push jobs, and how its feeds are read step by step."""

from dataclasses import dataclass

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.vocabularies import push
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.feeds.push_jobs import Manner, PushFeeds
from chalicelib.services.feeds.suspension import Stream, Wait
from chalicelib.services.ports import Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.conformance.push.push_client import Json, Parser, Sent, fact
from tests.services.worlds import World

STREAM = Manner(keep_alive_s=1e9)
PAGE = Manner(longest_s=0.0, is_page=True)
"""A page that has no time to wait for anything."""


@dataclass
class Site:
    """A log with push jobs, and its feeds."""

    log: SqliteLog
    views: Views
    world: World

    def happen(self, *texts: str, job: str = "j1") -> list[int]:
        """Have this happen to a job now; the EventIds."""
        return self.publish([fact(text, job) for text in texts])

    def publish(self, facts: list[Json]) -> list[int]:
        """Append these events in one commit; their EventIds."""
        texts = encoded([push.new_event(given) for given in facts])
        commit = self.world.appender(self.log).append(Append(1, texts, "r")).commit
        return [event.event_id for event in commit.events]

    def feeds(self, manner: Manner = STREAM) -> PushFeeds:
        """The feeds, read from the log and from what the views know by now."""
        retention = Retention(self.log, self.world.clock)
        return PushFeeds(LogReader(self.log, self.views), retention, self.world.clock, manner)

    def project(self) -> None:
        """Bring the views up to date."""
        catch_up(projector(self.views), 1, self.log, self.views)


def steps(stream: Stream[str]) -> tuple[str, Wait | None]:
    """All text up to the next wait, and that; None at the end."""
    text = ""
    for step in stream:
        if isinstance(step, Wait):
            return text, step
        text += step
    return text, None


def resumed(stream: Stream[str], wait: Wait | None, is_open: bool = True) -> tuple[str, Wait | None]:
    """All text after a wait up to the next, when something may have come, or when the process ends."""
    assert wait is not None
    try:
        step = stream.send(wait.seen if is_open else None)
    except StopIteration:
        return "", None
    if isinstance(step, Wait):
        return "", step
    text, next_wait = steps(stream)
    return step + text, next_wait


def events(text: str) -> list[Sent]:
    """The events of an answer."""
    return list(Parser().events(text.split("\n")[:-1]))


def last_id(text: str) -> str:
    """With which id a reader of this answer comes back."""
    parser = Parser()
    list(parser.events(text.split("\n")[:-1]))
    return parser.last_id
