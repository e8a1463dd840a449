"""Vocabularies: the event languages that Annals understands.

Each is a module: its events as models, how they map to and from core events, how they fold into objects. The first
subtype of an event names its vocabulary; events of none are kept and found all the same.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from pydantic_core import to_json

from chalicelib.domain.errors import BadInput, NotFound
from chalicelib.domain.events.event import Event, NewEvent, Stored
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import KEYED, ObjectRef, State
from chalicelib.domain.objects.summary import Brief
from chalicelib.domain.vocabularies import job, push, scheduler


class Vocabulary(Protocol):
    """What a vocabulary's module offers."""

    COLLECTIONS: Mapping[str, str]
    """Its collections of objects, each with the name under which a snapshot lists them."""

    def new_event(self, value: object) -> NewEvent:
        """The core event of an event in the vocabulary's own JSON; raises `ValidationError`."""

    def own_json(self, event: Event) -> dict[str, Any] | None:
        """The event in the vocabulary's own JSON, with its eventId; None if it does not follow the vocabulary."""

    def objects_of(self, stored: Stored) -> tuple[ObjectRef, ...]:
        """The objects whose state the event may change."""

    def refs_of_key(self, key: str) -> tuple[ObjectRef, ...]:
        """The objects that together hold all events with this key."""

    def canonical(self, collection: str, path: str) -> str:
        """The path as objects have it, of one that may be written otherwise."""

    def aliases(self, ref: ObjectRef) -> tuple[str, ...]:
        """The paths by which the object is found."""

    def is_exact(self, ref: ObjectRef) -> bool:
        """Tell whether the path is written like that of one object."""

    def is_unique(self, ref: ObjectRef) -> bool:
        """Tell whether no other object can be found by the path, however odd its key is."""

    def fold(self, collection: str, state: State | None, event: Event, own: dict[str, Any]) -> State | None:
        """The object's state after `event`, which is `own` in the vocabulary's JSON; None while it does not exist."""

    def is_whole(self, state: State) -> bool:
        """Tell whether the state, as it is stored, has all that the object has to tell."""

    def whole(self, collection: str, events: Iterable[tuple[Event, dict[str, Any]]]) -> State | None:
        """The object's whole state from all its events, however large that gets."""

    def brief_of(self, ref: ObjectRef, state: State) -> Brief:
        """What a list shows of the object, of its state as it is stored."""


MOST_STATE_BYTES = 16 * 1024
"""An event that would make a state larger than this changes nothing: a state is written again with each event."""

VOCABULARIES: Mapping[str, Vocabulary] = {"job": job, "scheduler": scheduler, "push": push}

_OF_ROOT: Mapping[str, Vocabulary] = {**VOCABULARIES, "jobset": job}
"""By the first subtype of its events."""


def named(name: str) -> Vocabulary:
    """The vocabulary called `name`."""
    if name not in VOCABULARIES:
        raise NotFound(f"there is no vocabulary '{name[:80]}', only {', '.join(VOCABULARIES)}")
    return VOCABULARIES[name]


def of_type(event_type: EventType) -> Vocabulary | None:
    """The vocabulary that an event's type belongs to."""
    return _OF_ROOT.get(event_type[0]) if event_type else None


def own_text(event: Event) -> str:
    """The event in its vocabulary's own JSON; as a core event if it has none."""
    vocabulary = of_type(event.stored.type)
    own = vocabulary.own_json(event) if vocabulary else None
    return event.wire if own is None else to_json(own).decode()


def objects_of(stored: Stored) -> tuple[ObjectRef, ...]:
    """The objects that an event is about; a key that no vocabulary knows is an object without state."""
    vocabulary, key = of_type(stored.type), stored.key
    known = vocabulary.objects_of(stored) if vocabulary else ()
    return known if key is None else _found_by_key(known, key)


@lru_cache(maxsize=8192)
def _found_by_key(known: tuple[ObjectRef, ...], key: str) -> tuple[ObjectRef, ...]:
    """With an object for the key, if none of those is: whoever looks for it must find the event, however odd it is."""
    return known if not set(known).isdisjoint(refs_of_key(key)) else (*known, ObjectRef(KEYED, key))


@lru_cache(maxsize=8192)
def refs_of_key(key: str) -> tuple[ObjectRef, ...]:
    """The objects that together hold all events with this key; remembered, for few keys come once only."""
    known = (ref for vocabulary in VOCABULARIES.values() for ref in vocabulary.refs_of_key(key))
    return (ObjectRef(KEYED, key), *known)


def is_exact(ref: ObjectRef) -> bool:
    """Tell whether the path is that of one object, not of a folder of some."""
    vocabulary = vocabulary_of(ref.collection)
    return not ref.path.endswith(("/", "/*")) and (vocabulary is None or vocabulary.is_exact(ref))


def is_unique(ref: ObjectRef) -> bool:
    """Tell whether a path query with this path means this object and surely no other."""
    vocabulary = vocabulary_of(ref.collection)
    return is_exact(ref) and (vocabulary is None or vocabulary.is_unique(ref))


def canonical(collection: str, query: PathQuery) -> PathQuery:
    """The query with its paths written as the collection's objects have them."""
    vocabulary = vocabulary_of(collection)
    if vocabulary is None:
        return query
    return PathQuery(tuple(PathPattern(vocabulary.canonical(collection, one.text)) for one in query.patterns))


def matches(query: PathQuery, ref: ObjectRef) -> bool:
    """Tell whether `query` means the object."""
    vocabulary = vocabulary_of(ref.collection)
    return any(query.matches(path) for path in (vocabulary.aliases(ref) if vocabulary else (ref.path,)))


def fold(collection: str, state: State | None, event: Event) -> State | None:
    """The state of an object of `collection` after `event`.

    Anybody may publish anything under a vocabulary's types; what does not follow the vocabulary changes no state.
    """
    vocabulary = of_type(event.stored.type)
    own = vocabulary.own_json(event) if vocabulary and collection != KEYED else None
    if vocabulary is None or own is None:
        return state
    folded = vocabulary.fold(collection, state, event, own)
    return folded if len(to_json(folded)) <= MOST_STATE_BYTES else state


def is_whole(collection: str, state: State) -> bool:
    """Tell whether the stored state has all that the object has to tell."""
    vocabulary = vocabulary_of(collection)
    return vocabulary is None or vocabulary.is_whole(state)


def whole(collection: str, events: Iterable[Event]) -> State | None:
    """The whole state of an object from all its events."""
    vocabulary = vocabulary_of(collection)
    if vocabulary is None:
        return None
    following = ((event, vocabulary.own_json(event)) for event in events if of_type(event.stored.type) is vocabulary)
    return vocabulary.whole(collection, ((event, own) for event, own in following if own is not None))


def brief_of(ref: ObjectRef, state: State) -> Brief:
    """What a list shows of an object; whatever has a state has a vocabulary."""
    vocabulary = vocabulary_of(ref.collection)
    return Brief(ref.path, ref.path, "", "") if vocabulary is None else vocabulary.brief_of(ref, state)


def collections() -> tuple[str, ...]:
    """The collections of all vocabularies."""
    return tuple(collection for vocabulary in VOCABULARIES.values() for collection in vocabulary.COLLECTIONS)


def collection_checked(collection: str) -> str:
    """`collection` itself, if there is one of this name."""
    if collection not in collections():
        raise BadInput(f"there is no collection '{collection[:80]}', only {', '.join(collections())}")
    return collection


def vocabulary_of(collection: str) -> Vocabulary | None:
    """The vocabulary that has this collection."""
    return next((v for v in VOCABULARIES.values() if collection in v.COLLECTIONS), None)
