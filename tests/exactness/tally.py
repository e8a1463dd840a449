"""A vocabulary for tests: an object's state is the list of its events, so that nothing can be folded twice unseen."""

from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib.domain.events.event import Event, NewEvent, Stored
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import Brief

NAME = "tally"
COLLECTIONS: Mapping[str, str] = {NAME: "tallies"}


def new_event(value: object) -> NewEvent:
    """An event is written as its key."""
    return NewEvent(type=(NAME, "counted"), key=str(value))


def own_json(event: Event) -> dict[str, Any]:
    """Its number is all there is to it."""
    return {"eventId": event.event_id}


def objects_of(stored: Stored) -> tuple[ObjectRef, ...]:
    """One object for each key."""
    return () if stored.key is None else (ObjectRef(NAME, stored.key),)


def refs_of_key(key: str) -> tuple[ObjectRef, ...]:
    """The same."""
    return (ObjectRef(NAME, key),)


def canonical(collection: str, path: str) -> str:
    """Written in one way."""
    del collection
    return path


def aliases(ref: ObjectRef) -> tuple[str, ...]:
    """It has but one name."""
    return (ref.path,)


def is_exact(ref: ObjectRef) -> bool:
    """Every path is that of one object."""
    del ref
    return True


def is_unique(ref: ObjectRef) -> bool:
    """And nothing else has it."""
    del ref
    return True


def fold(collection: str, state: State | None, event: Event, own: dict[str, Any]) -> State:
    """One more."""
    del collection, own
    return {"events": [*(state["events"] if state else []), event.event_id]}


def is_whole(state: State) -> bool:
    """Nothing is left out."""
    del state
    return True


def whole(collection: str, events: Iterable[tuple[Event, dict[str, Any]]]) -> State | None:
    """All of them."""
    del collection
    return {"events": [event.event_id for event, _ in events]}


def brief_of(ref: ObjectRef, state: State) -> Brief:
    """How many there are."""
    return Brief(ref.path, ref.path, "counted", f"{len(state['events'])} events")
