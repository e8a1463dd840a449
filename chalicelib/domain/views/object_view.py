"""The view of an object: its state, and where its events are."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.views.record import SESSIONS, Checkpoint, Record, objects_view

SESSIONS_AT_HAND = 400
"""So many sessions stay in an object's own record, then they move to one of their own."""


@dataclass(frozen=True, slots=True)
class ObjectView:
    """An object: its state, and the sessions that hold its events."""

    to: int = 0
    state: State | None = None
    recent: tuple[int, ...] = ()
    """Sessions, ascending, that have not moved away yet."""
    moved_to: int = 0
    """The last session that has; 0 if none has. Names the last record of sessions."""

    @classmethod
    def of(cls, record: Record | None) -> Self:
        """What the record says; nothing yet if there is none."""
        if record is None:
            return cls()
        data = from_json(record.data)
        moved_to = data.get("m", 0)
        return cls(record.to, data.get("s"), sessions_from(moved_to, data["n"]), moved_to)

    def folded(self, collection: str, events: Iterable[Event]) -> Self:
        """The object after those of `events` that it does not hold yet."""
        state, sessions, to = self.state, list(self.recent), self.to
        for event in events:
            if event.id.session <= self.to:
                continue
            state = vocabularies.fold(collection, state, event)
            if event.id.session != to:
                to = event.id.session
                sessions.append(to)
        return replace(self, to=to, state=state, recent=tuple(sessions))

    def records(self, checkpoint: Checkpoint, ref: ObjectRef) -> list[Record]:
        """What to store, in this order: first the sessions that move away, if there are too many, then the object."""
        moved: list[Record] = []
        recent, moved_to = self.recent, self.moved_to
        if len(recent) > SESSIONS_AT_HAND:
            data = {"after": moved_to, "n": differences(moved_to, recent)}
            moved = [Record(checkpoint.view(SESSIONS), moved_item(ref, recent[-1]), self.to, to_json(data).decode())]
            moved_to, recent = recent[-1], ()
        members: dict[str, Any] = {"n": differences(moved_to, recent)}
        if moved_to:
            members["m"] = moved_to
        if self.state is not None:
            members["s"] = self.state
        item = Record(checkpoint.view(objects_view(ref.collection)), ref.path, self.to, to_json(members).decode())
        return [*moved, item]


def moved_item(ref: ObjectRef, last: int) -> str:
    """The item with the sessions of an object up to `last`."""
    return f"{ref.collection}:{ref.path}:{last:013d}"


def moved(record: Record) -> tuple[int, tuple[int, ...]]:
    """The sessions that have moved to `record`, and the last one before them."""
    data = from_json(record.data)
    return data["after"], sessions_from(data["after"], data["n"])


def differences(before: int, sessions: Iterable[int]) -> list[int]:
    """Ascending sessions as the steps between them: small numbers are short."""
    steps = []
    for session in sessions:
        steps.append(session - before)
        before = session
    return steps


def sessions_from(before: int, steps: Iterable[int]) -> tuple[int, ...]:
    """What `differences` wrote."""
    sessions = []
    for step in steps:
        before += step
        sessions.append(before)
    return tuple(sessions)
