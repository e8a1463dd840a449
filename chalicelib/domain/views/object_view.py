"""The view of an object: its state, the sessions that contain its events, and copies of small events."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.views.excerpt import Excerpt, decode_excerpts, encode_excerpts
from chalicelib.domain.views.record import SESSIONS_VIEW, Checkpoint, Record, objects_view

MAX_RECENT_SESSIONS = 400
MAX_RECENT_BYTES = 3_000
"""When an object's record lists more sessions than this, or more deflated events, they move to separate records."""
MAX_ARCHIVE_CHARACTERS = 16_000
"""Maximum size of the events in such a record, which are perhaps not compressible."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Ascending sessions with events of an object, and excerpts of some of them."""

    after: int = 0
    """The last session in front of them, 0 if there is none."""
    numbers: tuple[int, ...] = ()
    excerpts: Mapping[int, Excerpt] = field(default_factory=dict)
    """By session."""

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """The sessions of an archive record. The record before it is named by `after`."""
        data = from_json(record.data)
        numbers = delta_decode(data["after"], data["n"])
        return cls(data["after"], numbers, decode_excerpts(record.server, numbers, data))

    @property
    def last(self) -> int:
        return self.numbers[-1] if self.numbers else self.after

    def encode(self) -> dict[str, Any]:
        """The members of a record."""
        return {"n": delta_encode(self.after, self.numbers), **encode_excerpts(self.numbers, self.excerpts)}

    def is_large(self, members: Mapping[str, Any]) -> bool:
        """Whether the sessions, encoded as `members`, have to move to archive records."""
        if len(self.numbers) > MAX_RECENT_SESSIONS:
            return True
        texts = members.get("t", "").encode()
        return len(texts) > MAX_RECENT_BYTES and len(zlib.compress(texts)) > MAX_RECENT_BYTES

    def split(self) -> Iterator["Sessions"]:
        """The sessions in parts that are small enough for an archive record."""
        start = characters = 0
        for index, session in enumerate(self.numbers):
            excerpt = self.excerpts.get(session)
            size = 0 if excerpt is None else sum(len(text) for _, text in excerpt.numbered_texts)
            if index - start == MAX_RECENT_SESSIONS or characters + size > MAX_ARCHIVE_CHARACTERS:
                yield self._part(start, index)
                start, characters = index, 0
            characters += size
        yield self._part(start, len(self.numbers))

    def _part(self, start: int, end: int) -> "Sessions":
        numbers = self.numbers[start:end]
        excerpts = {session: self.excerpts[session] for session in numbers if session in self.excerpts}
        return Sessions(self.numbers[start - 1] if start else self.after, numbers, excerpts)


@dataclass(frozen=True, slots=True)
class ObjectView:
    """An object's state, and the sessions that contain its events."""

    last_session: int = 0
    state: State | None = None
    recent: Sessions = Sessions()
    """The sessions that are still listed in the object's own record. Those before are in archive records."""
    ordinal: int | None = None
    """The object's entry in the list index. None: it is not listed."""
    former_ordinal: int | None = None
    """The ordinal before the last run of the projector that changed the object."""

    @classmethod
    def from_record(cls, record: Record | None) -> Self:
        """An empty view if there is no record."""
        if record is None:
            return cls()
        data = from_json(record.data)
        after = data.get("m", 0)
        numbers = delta_decode(after, data["n"])
        recent = Sessions(after, numbers, decode_excerpts(record.server, numbers, data))
        return cls(record.version, data.get("s"), recent, *data.get("o", (None, None)))

    def fold(self, collection: str, events: Iterable[Event]) -> Self:
        """The view with `events` added. Events of sessions that it already contains are ignored."""
        state, sessions, last_session = self.state, list(self.recent.numbers), self.last_session
        for event in events:
            if event.id.session <= self.last_session:
                continue
            state = vocabularies.fold(collection, state, event)
            if event.id.session != last_session:
                last_session = event.id.session
                sessions.append(last_session)
        recent = replace(self.recent, numbers=tuple(sessions))
        return replace(self, last_session=last_session, state=state, recent=recent)

    def add_excerpts(self, excerpts: Iterable[Excerpt]) -> Self:
        """The view with copies of events that it already contains."""
        by_session = {excerpt.session: excerpt for excerpt in excerpts}
        return replace(self, recent=replace(self.recent, excerpts={**self.recent.excerpts, **by_session}))

    def to_records(self, checkpoint: Checkpoint, ref: ObjectRef) -> list[Record]:
        """The records to store, in this order: archive records, if there are too many sessions, then the object."""
        archives: list[Record] = []
        recent, sessions = self.recent, self.recent.encode()
        if recent.is_large(sessions):
            view = checkpoint.view_name(SESSIONS_VIEW)
            for part in recent.split():
                data = to_json({"after": part.after, **part.encode()}).decode()
                archives.append(Record(view, archive_item(ref, part.last), self.last_session, data))
            recent = Sessions(after=recent.last)
            sessions = recent.encode()
        members: dict[str, Any] = sessions
        if recent.after:
            members["m"] = recent.after
        if (self.ordinal, self.former_ordinal) != (None, None):
            members["o"] = self.ordinal, self.former_ordinal
        if self.state is not None:
            members["s"] = self.state
        view = checkpoint.view_name(objects_view(ref.collection))
        return [*archives, Record(view, ref.path, self.last_session, to_json(members).decode())]


def archive_item(ref: ObjectRef, last_session: int) -> str:
    """The item of the archive record that ends with `last_session`. Items of an object are sorted by session."""
    return f"{ref.collection}:{ref.path}:{last_session:013d}"


def delta_encode(previous: int, sessions: Iterable[int]) -> list[int]:
    """Ascending sessions as differences, which have fewer digits."""
    deltas = []
    for session in sessions:
        deltas.append(session - previous)
        previous = session
    return deltas


def delta_decode(previous: int, deltas: Iterable[int]) -> tuple[int, ...]:
    """The inverse of `delta_encode`."""
    sessions = []
    for delta in deltas:
        previous += delta
        sessions.append(previous)
    return tuple(sessions)
