"""The view of an object: its state, and the sessions that contain its events."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.views.record import SESSIONS_VIEW, Checkpoint, Record, objects_view

MAX_RECENT_SESSIONS = 400
"""When an object's record lists more sessions than this, they move to a separate record."""


@dataclass(frozen=True, slots=True)
class ObjectView:
    """An object's state, and the sessions that contain its events."""

    last_session: int = 0
    state: State | None = None
    recent_sessions: tuple[int, ...] = ()
    """Ascending sessions that are still listed in the object's own record."""
    archived_to: int = 0
    """The last session that moved to another record, 0 if none has. It names that record."""
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
        archived_to = data.get("m", 0)
        ordinals = data.get("o", (None, None))
        return cls(record.version, data.get("s"), delta_decode(archived_to, data["n"]), archived_to, *ordinals)

    def fold(self, collection: str, events: Iterable[Event]) -> Self:
        """The view with `events` added. Events of sessions that it already contains are ignored."""
        state, sessions, last_session = self.state, list(self.recent_sessions), self.last_session
        for event in events:
            if event.id.session <= self.last_session:
                continue
            state = vocabularies.fold(collection, state, event)
            if event.id.session != last_session:
                last_session = event.id.session
                sessions.append(last_session)
        return replace(self, last_session=last_session, state=state, recent_sessions=tuple(sessions))

    def to_records(self, checkpoint: Checkpoint, ref: ObjectRef) -> list[Record]:
        """The records to store, in this order: archived sessions, if there are too many, then the object."""
        archive: list[Record] = []
        recent, archived_to = self.recent_sessions, self.archived_to
        if len(recent) > MAX_RECENT_SESSIONS:
            data = to_json({"after": archived_to, "n": delta_encode(archived_to, recent)}).decode()
            item = archived_sessions_item(ref, recent[-1])
            archive = [Record(checkpoint.view_name(SESSIONS_VIEW), item, self.last_session, data)]
            archived_to, recent = recent[-1], ()
        members: dict[str, Any] = {"n": delta_encode(archived_to, recent)}
        if archived_to:
            members["m"] = archived_to
        if (self.ordinal, self.former_ordinal) != (None, None):
            members["o"] = self.ordinal, self.former_ordinal
        if self.state is not None:
            members["s"] = self.state
        view = checkpoint.view_name(objects_view(ref.collection))
        return [*archive, Record(view, ref.path, self.last_session, to_json(members).decode())]


def archived_sessions_item(ref: ObjectRef, last_session: int) -> str:
    """The item that lists the object's sessions up to `last_session`."""
    return f"{ref.collection}:{ref.path}:{last_session:013d}"


def parse_archived_sessions(record: Record) -> tuple[int, tuple[int, ...]]:
    """The last session before those in `record`, which names the preceding record, and the sessions in it."""
    data = from_json(record.data)
    return data["after"], delta_decode(data["after"], data["n"])


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
