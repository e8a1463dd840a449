"""Commits: the unit of writing. One append request is one commit, one session, one item."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from chalicelib.domain import timestamps
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.body import body_of, texts_of
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id, next_event_id
from chalicelib.domain.lazy import once
from chalicelib.domain.log.append import Append


@dataclass(frozen=True)
class Commit:
    """The events of one request, numbered."""

    server: int
    session: int
    at: int
    """EventId of the first event; the i-th, from 0, has `at + i`."""
    n: int
    prev: int
    """EventId of the last event of the session before; 0 for session 1."""
    request_id: str
    body: str
    """A JSON array: the events as `encode` wrote them, one a line."""

    @property
    def last(self) -> int:
        """EventId of the last event."""
        return self.at + self.n - 1

    @property
    def head(self) -> Head:
        """The log's head once this commit is stored."""
        return Head(self.server, self.session, self.n, self.last)

    @once
    def texts(self) -> list[str]:
        """The JSON of each event."""
        texts = texts_of(self.body)
        if len(texts) != self.n:
            raise LogBroken(f"session {self.session} of server {self.server} should have {self.n} events")
        return texts

    @once
    def events(self) -> tuple[Event, ...]:
        """The events in order."""
        return tuple(self.numbered(enumerate(self.texts)))

    def numbered(self, texts: Iterable[tuple[int, str]]) -> Iterator[Event]:
        """Some of its events, each given by its number, from 0, and its JSON."""
        return (Event(Id(self.server, self.session, i + 1), self.at + i, self.at, text) for i, text in texts)

    @property
    def wires(self) -> list[str]:
        """The JSON of each event for readers: as `Event.wire`, but the common parts written once."""
        opening = f'{{"id":{{"server":{self.server},"session":{self.session},"instance":'
        closing = f',"timestamp":"{timestamps.iso(self.at)}",'
        first = self.at - 1
        return [
            f'{opening}{i}}},"eventId":{first + i}{closing}{text[1:]}' for i, text in enumerate(self.texts, start=1)
        ]


class Appended(NamedTuple):
    """The request is in the log, as this commit; `replayed` if an earlier request wrote it."""

    commit: Commit
    replayed: bool = False


def next_commit(head: Head, append: Append, now_ms: int) -> Commit:
    """The commit that follows `head` with the events of `append`."""
    return Commit(
        server=head.server,
        session=head.session + 1,
        at=next_event_id(now_ms, head.last),
        n=len(append.texts),
        prev=head.last,
        request_id=append.request_id,
        body=body_of(append.texts),
    )


def chained_back(commits: Iterable[Commit]) -> Iterator[Commit]:
    """Commits from late to early, each checked to be the very one before."""
    later: Commit | None = None
    for commit in commits:
        if later is not None and (commit.session != later.session - 1 or commit.last != later.prev):
            raise _broken(later, commit.session, commit.last)
        yield commit
        later = commit


def chained(head: Head, commits: Iterable[Commit]) -> Iterator[Commit]:
    """The commits that follow `head`, each checked to be the very next: nothing skipped, nothing twice."""
    session, last = head.session, head.last
    for commit in commits:
        if commit.session != session + 1 or commit.prev != last or commit.at <= last:
            raise _broken(commit, session, last)
        session, last = commit.session, commit.last
        yield commit


def _broken(commit: Commit, session: int, last: int) -> LogBroken:
    return LogBroken(
        f"session {commit.session} of server {commit.server} (prev {commit.prev}, at {commit.at}) "
        f"does not follow session {session} that ends at {last}"
    )
