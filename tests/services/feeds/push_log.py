"""A log with push jobs, and functions that read its feeds step by step."""

from dataclasses import dataclass

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.vocabularies import PUSH_VOCABULARY
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.feeds.push_jobs import FeedSettings, PushFeeds
from chalicelib.services.feeds.suspension import Stream, Wait
from chalicelib.services.ports import Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.conformance.push.push_client import Json, Parser, ServerSentEvent, push_event
from tests.services.fakes import World

STREAM = FeedSettings(keep_alive_s=1e9)
PAGE = FeedSettings(max_duration_s=0.0, first_page_only=True)
"""A page without any waiting."""


@dataclass
class PushLog:
    """A log with push jobs, and its feeds."""

    log: SqliteLog
    views: Views
    world: World

    def publish(self, *texts: str, job: str = "j1") -> list[int]:
        """Append events of a job, given as text, and return their EventIds."""
        return self.append([push_event(text, job) for text in texts])

    def append(self, facts: list[Json]) -> list[int]:
        """Append events in one commit and return their EventIds."""
        texts = encode_within_limits([PUSH_VOCABULARY.new_event(event) for event in facts])
        commit = self.world.appender(self.log).append(Append(1, texts, "r")).commit
        return [event.event_id for event in commit.events]

    def feeds(self, settings: FeedSettings = STREAM) -> PushFeeds:
        """Feeds that read the log and the views as projected so far."""
        retention = Retention(self.log, self.world.clock)
        return PushFeeds(LogReader(self.log, self.views), retention, self.world.clock, settings)

    def project(self) -> None:
        """Bring the views up to date."""
        catch_up(projector(self.views), 1, self.log, self.views)


def read_until_wait(stream: Stream[str]) -> tuple[str, Wait | None]:
    """All text up to the next wait, and the wait, or None at the end."""
    text = ""
    for step in stream:
        if isinstance(step, Wait):
            return text, step
        text += step
    return text, None


def resume(stream: Stream[str], wait: Wait | None, is_open: bool = True) -> tuple[str, Wait | None]:
    """Resume after a wait, or shut down if not `is_open`, and read until the next wait."""
    assert wait is not None
    try:
        step = stream.send(wait.head if is_open else None)
    except StopIteration:
        return "", None
    if isinstance(step, Wait):
        return "", step
    text, next_wait = read_until_wait(stream)
    return step + text, next_wait


def events(text: str) -> list[ServerSentEvent]:
    """Parse the events of a response."""
    return list(Parser().events(text.split("\n")[:-1]))


def last_id(text: str) -> str:
    """The id with which a client resumes after this response."""
    parser = Parser()
    list(parser.events(text.split("\n")[:-1]))
    return parser.last_id
