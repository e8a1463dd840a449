"""Commits: the unit of writing. One append request becomes one commit, one session, one stored item."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chalicelib.domain import timestamps
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.body import join_body, split_body
from chalicelib.domain.events.event import NO_TAGS, Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id, next_event_id
from chalicelib.domain.lazy import lazy_property
from chalicelib.domain.log.append import Append


class _StoredCommit(NamedTuple):
    """The stored fields of a commit. A tuple, because it is built several times faster than a frozen dataclass."""

    server: int
    session: int
    at_us: int
    """Time of all its events, and EventId of the first. The event at index i, from 0, has the EventId `at_us + i`."""
    event_count: int
    previous_event_id: int
    """EventId of the last event of the previous session, 0 for session 1."""
    request_id: str
    body: str
    """A JSON array of the encoded events, one per line."""


class Commit(_StoredCommit):
    """The events of one request, numbered. Unlike its base class it has a `__dict__`, for the lazy properties."""

    @property
    def last_event_id(self) -> int:
        """EventId of the last event."""
        return self.at_us + self.event_count - 1

    @property
    def head(self) -> Head:
        """The log's head once this commit is stored."""
        return Head(self.server, self.session, self.event_count, self.last_event_id)

    @property
    def previous_head(self) -> Head:
        """The log's head before this commit. The size of the previous commit is unknown, so it is 0."""
        return Head(self.server, self.session - 1, 0, self.previous_event_id)

    @lazy_property
    def texts(self) -> list[str]:
        """The JSON of each event. Raises `LogBroken` if their number is wrong."""
        texts = split_body(self.body)
        if len(texts) != self.event_count:
            raise LogBroken(
                f"session {self.session} of server {self.server} has {len(texts)} events, expected {self.event_count}"
            )
        return texts

    @lazy_property
    def events(self) -> tuple[Event, ...]:
        """The events in order."""
        return tuple(self.build_events(enumerate(self.texts)))

    def build_events(self, texts: Iterable[tuple[int, str]]) -> Iterator[Event]:
        """Events of this commit from their index, from 0, and their JSON."""
        return (Event(Id(self.server, self.session, i + 1), self.at_us + i, self.at_us, text) for i, text in texts)

    @property
    def wire_texts(self) -> list[str]:
        """`Event.wire_text` of each event, but the common parts are formatted only once."""
        opening = f'{{"id":{{"server":{self.server},"session":{self.session},"instance":'
        closing = f',"timestamp":"{timestamps.iso(self.at_us)}",'
        first = self.at_us - 1
        return [
            f'{opening}{i}}},"eventId":{first + i}{closing}{text[1:-1]}{"}" if text[-2:] == "]}" else NO_TAGS}'
            for i, text in enumerate(self.texts, start=1)
        ]


class Appended(NamedTuple):
    """The commit of a request. `replayed` if an earlier request with the same idempotency key wrote it."""

    commit: Commit
    replayed: bool = False


def next_commit(head: Head, append: Append, now_ms: int) -> Commit:
    """The commit of `append` that follows `head`."""
    commit = Commit(
        server=head.server,
        session=head.session + 1,
        at_us=next_event_id(now_ms, head.last_event_id),
        event_count=len(append.texts),
        previous_event_id=head.last_event_id,
        request_id=append.request_id,
        body=join_body(append.texts),
    )
    commit.__dict__["texts"] = list(append.texts)  # The lazy property would split the body again.
    return commit


def verify_contiguous(head: Head, commits: Iterable[Commit]) -> Iterator[Commit]:
    """Yield the commits after `head`. Raises `LogBroken` at the first one that does not follow its predecessor."""
    session, last_event_id = head.session, head.last_event_id
    for commit in commits:
        if commit.session != session + 1 or commit.previous_event_id != last_event_id or commit.at_us <= last_event_id:
            raise _broken(commit, session, last_event_id)
        session, last_event_id = commit.session, commit.last_event_id
        yield commit


def verify_contiguous_backwards(commits: Iterable[Commit]) -> Iterator[Commit]:
    """Yield commits from late to early. Raises `LogBroken` at the first one that its successor does not follow."""
    later: Commit | None = None
    for commit in commits:
        if later is not None and (
            commit.session != later.session - 1 or commit.last_event_id != later.previous_event_id
        ):
            raise _broken(later, commit.session, commit.last_event_id)
        yield commit
        later = commit


def _broken(commit: Commit, session: int, last_event_id: int) -> LogBroken:
    return LogBroken(
        f"session {commit.session} of server {commit.server} (prev {commit.previous_event_id}, at {commit.at_us}) "
        f"does not follow session {session} that ends at {last_event_id}"
    )
