"""Commits: the unit of writing. One append request becomes one commit, one session, one stored item."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

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
    before: int | None = None
    """Number of events in the log before this commit. None: written by version 0.1.0 on DynamoDB."""
    by: str = ""
    """The subject of the token that published it. Empty: unknown, or Annals itself."""
    idempotency_key: str = ""
    digest: str = ""
    """Digest of the request, if it has an idempotency key."""


class Commit(_StoredCommit):
    """The events of one request, numbered. Unlike its base class it has a `__dict__`, for the lazy properties."""

    @property
    def last_event_id(self) -> int:
        """EventId of the last event."""
        return self.at_us + self.event_count - 1

    @property
    def head(self) -> Head:
        """The log's head once this commit is stored."""
        position = None if self.before is None else self.before + self.event_count
        return Head(self.server, self.session, self.event_count, self.last_event_id, position)

    def position_of(self, event_id: int) -> int | None:
        """The position of an event of this commit."""
        return None if self.before is None else self.before + event_id - self.at_us + 1

    @property
    def previous_head(self) -> Head:
        """The log's head before this commit. The size of the previous commit is unknown, so it is 0."""
        return Head(self.server, self.session - 1, 0, self.previous_event_id, self.before)

    @property
    def checksum(self) -> int:
        """CRC-32 of all fields. It is stored with the commit, and verified whenever the commit is read."""
        server, session, at_us, event_count, previous, request_id, body, before, by, key, digest = self
        numbers = f"{server} {session} {at_us} {event_count} {previous} {before}"
        return crc32(f"{numbers}\n{request_id}\n{by}\n{key}\n{digest}\n{body}".encode())

    def verify(self, checksum: int) -> "Commit":
        """Return the commit. Raises `LogBroken` if it does not have this checksum."""
        if self.checksum != checksum:
            raise LogBroken(f"session {self.session} of server {self.server} is damaged: its checksum is wrong")
        return self

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
        server, session, at_us, before = self.server, self.session, self.at_us, self.before
        return (
            Event(Id(server, session, i + 1), at_us + i, at_us, text, None if before is None else before + i + 1)
            for i, text in texts
        )

    def find_events(self, find: Callable[[str], Iterable[tuple[int, str]]]) -> Iterator[Event]:
        """The events whose index and JSON `find` returns for the body."""
        return self.build_events(find(self.body))

    @property
    def wire_texts(self) -> list[str]:
        """`Event.wire_text` of each event, but the common parts are formatted only once."""
        opening = f'{{"id":{{"server":{self.server},"session":{self.session},"instance":'
        closing = f',"timestamp":"{timestamps.iso(self.at_us)}",'
        first, before = self.at_us - 1, self.before
        if before is None:
            closing = f',"position":null{closing}'
            return [
                f'{opening}{i}}},"eventId":{first + i}{closing}{text[1:-1]}{"}" if text[-2:] == "]}" else NO_TAGS}'
                for i, text in enumerate(self.texts, start=1)
            ]
        return [
            f'{opening}{i}}},"eventId":{first + i},"position":{before + i}{closing}{text[1:-1]}'
            f"{'}' if text[-2:] == ']}' else NO_TAGS}"
            for i, text in enumerate(self.texts, start=1)
        ]


class Appended(NamedTuple):
    """The commit of a request. `replayed` if an earlier request with the same idempotency key wrote it."""

    commit: Commit
    replayed: bool = False


def next_commit(head: Head, append: Append, now_ms: int) -> Commit:
    """The commit of `append` that follows `head`."""
    texts, key = append.texts, append.idempotency_key
    commit = Commit(  # Names of the arguments would take a third of the time.
        head.server,
        head.session + 1,
        next_event_id(now_ms, head.last_event_id),
        len(texts),
        head.last_event_id,
        append.request_id,
        join_body(texts),
        head.position,
        append.by,
        key or "",
        "" if key is None else append.digest,
    )
    commit.__dict__["texts"] = list(texts)  # The lazy property would split the body again.
    return commit


def verify_contiguous(head: Head, commits: Iterable[Commit]) -> Iterator[Commit]:
    """Yield the commits after `head`. Raises `LogBroken` at the first one that does not follow its predecessor."""
    session, last_event_id, position = head.session, head.last_event_id, head.position
    for commit in commits:
        if commit.session != session + 1 or commit.previous_event_id != last_event_id or commit.at_us <= last_event_id:
            raise _broken(commit, session, last_event_id)
        before = commit.before
        if before is not None and position is not None and before != position:
            raise LogBroken(
                f"session {commit.session} of server {commit.server} counts {before} events before it, not {position}"
            )
        session, last_event_id = commit.session, commit.last_event_id
        position = None if before is None else before + commit.event_count
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
