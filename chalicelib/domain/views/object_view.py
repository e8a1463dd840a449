"""The view of an object: its state, the sessions that contain its events, and copies of small events."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Self

from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.views.excerpt import Excerpt, decode_excerpts, encode_excerpts
from chalicelib.domain.views.record import SESSIONS_VIEW, Checkpoint, Record, objects_view

MAX_RECENT_SESSIONS = 400
"""When an object's record lists more sessions than this, they move to an archive record."""
MAX_COPIED_CHARACTERS = 20_000
MAX_COPIED_BYTES = 3_000
"""Maximum size of the copies in an object's record, as text and deflated. Copies of earlier events are left out."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Ascending sessions with events of an object."""

    after: int = 0
    """The last session in front of them, 0 if there is none. It names their archive record."""
    numbers: tuple[int, ...] = ()

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """The sessions of an archive record."""
        data = from_json(record.data)
        return cls(data["after"], delta_decode(data["after"], data["n"]))

    @property
    def last(self) -> int:
        return self.numbers[-1] if self.numbers else self.after

    def to_record(self, checkpoint: Checkpoint, ref: ObjectRef, version: int) -> Record:
        """Their archive record."""
        data = to_json({"after": self.after, "n": delta_encode(self.after, self.numbers)}).decode()
        return Record(checkpoint.view_name(SESSIONS_VIEW), archive_item(ref, self.last), version, data)


@dataclass(frozen=True, slots=True)
class ObjectView:
    """An object's state, and the sessions that contain its events."""

    last_session: int = 0
    state: State | None = None
    recent: Sessions = Sessions()
    """The sessions that are still listed in the object's own record. Those before are in archive records."""
    excerpts: Mapping[int, Excerpt] = field(default_factory=dict)
    """Copies of the events in some of the recent sessions, by session."""
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
        excerpts = decode_excerpts(record.server, numbers, data)
        return cls(record.version, data.get("s"), Sessions(after, numbers), excerpts, *data.get("o", (None, None)))

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
        """The view with copies of events that it already contains, without the earliest if they are too large."""
        newest_first = sorted([*self.excerpts.values(), *excerpts], reverse=True)
        sizes = accumulate(excerpt.characters for excerpt in newest_first)
        kept = newest_first[: sum(size <= MAX_COPIED_CHARACTERS for size in sizes)]
        while _deflated_bytes(kept) > MAX_COPIED_BYTES:
            kept = kept[: len(kept) // 2]
        return replace(self, excerpts={excerpt.session: excerpt for excerpt in kept})

    def to_records(self, checkpoint: Checkpoint, ref: ObjectRef) -> list[Record]:
        """The records to store, in this order: archived sessions, if there are too many, then the object."""
        archives: list[Record] = []
        recent, excerpts = self.recent, self.excerpts
        if len(recent.numbers) > MAX_RECENT_SESSIONS:
            archives = [recent.to_record(checkpoint, ref, self.last_session)]
            recent, excerpts = Sessions(after=recent.last), {}
        members: dict[str, Any] = {
            "n": delta_encode(recent.after, recent.numbers),
            **encode_excerpts(recent.numbers, excerpts),
        }
        if recent.after:
            members["m"] = recent.after
        if (self.ordinal, self.former_ordinal) != (None, None):
            members["o"] = self.ordinal, self.former_ordinal
        if self.state is not None:
            members["s"] = self.state
        view = checkpoint.view_name(objects_view(ref.collection))
        return [*archives, Record(view, ref.path, self.last_session, to_json(members).decode())]


def _deflated_bytes(excerpts: Sequence[Excerpt]) -> int:
    return len(zlib.compress("".join(text for excerpt in excerpts for _, text in excerpt.numbered_texts).encode()))


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
