"""A vocabulary for tests. An object's state lists its events, so that folding an event twice is visible."""

from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib.domain.events.event import Event, EventFields, NewEvent
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.vocabularies import Vocabulary

NAME = "tally"
COLLECTIONS: Mapping[str, str] = {NAME: "tallies"}


def new_event(value: object) -> NewEvent:
    return NewEvent(type=(NAME, "counted"), key=str(value))


def native_json(event: Event) -> dict[str, Any]:
    return {"eventId": event.event_id}


def affected_objects(fields: EventFields) -> tuple[ObjectRef, ...]:
    return () if fields.key is None else (ObjectRef(NAME, fields.key),)


def objects_with_key(key: str) -> tuple[ObjectRef, ...]:
    return (ObjectRef(NAME, key),)


def fold(collection: str, state: State | None, event: Event, native: dict[str, Any]) -> State:
    del collection, native
    return {"events": [*(state["events"] if state else []), event.event_id]}


def full_state(collection: str, events: Iterable[tuple[Event, dict[str, Any]]]) -> State | None:
    del collection
    return {"events": [event.event_id for event, _ in events]}


def summarize(ref: ObjectRef, state: State) -> ObjectSummary:
    return ObjectSummary(ref.path, ref.path, "counted", f"{len(state['events'])} events")


TALLY_VOCABULARY = Vocabulary(
    collections=COLLECTIONS,
    new_event=new_event,
    native_json=native_json,
    affected_objects=affected_objects,
    objects_with_key=objects_with_key,
    is_exact=lambda _: True,
    fold=fold,
    full_state=full_state,
    summarize=summarize,
)
