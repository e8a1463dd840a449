"""Vocabularies: the event formats that Annals understands.

The first subtype of an event names its vocabulary. Events of other types are stored and can be queried, but they
have no native JSON and their objects have no state.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from pydantic_core import to_json

from chalicelib.domain.errors import BadInput, NotFound
from chalicelib.domain.events.event import Event, EventFields
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import KEYED, TAGGED, ObjectRef, State
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.vocabularies.job import JOB_VOCABULARY
from chalicelib.domain.vocabularies.push import PUSH_VOCABULARY
from chalicelib.domain.vocabularies.scheduler import SCHEDULER_VOCABULARY
from chalicelib.domain.vocabularies.vocabulary import Vocabulary

__all__ = ["JOB_VOCABULARY", "PUSH_VOCABULARY", "SCHEDULER_VOCABULARY", "VOCABULARIES", "Vocabulary"]

VOCABULARIES: Mapping[str, Vocabulary] = {
    "job": JOB_VOCABULARY,
    "scheduler": SCHEDULER_VOCABULARY,
    "push": PUSH_VOCABULARY,
}

_BY_FIRST_SUBTYPE: Mapping[str, Vocabulary] = {**VOCABULARIES, "jobset": JOB_VOCABULARY}


def by_name(name: str) -> Vocabulary:
    """Raises `NotFound` if there is no vocabulary of this name."""
    if name not in VOCABULARIES:
        raise NotFound(f"unknown vocabulary '{name[:80]}'; use one of {', '.join(VOCABULARIES)}")
    return VOCABULARIES[name]


def for_type(event_type: EventType) -> Vocabulary | None:
    return _BY_FIRST_SUBTYPE.get(event_type[0]) if event_type else None


def for_collection(collection: str) -> Vocabulary | None:
    return next((v for v in VOCABULARIES.values() if collection in v.collections), None)


def collections() -> tuple[str, ...]:
    """The collections of all vocabularies."""
    return tuple(collection for vocabulary in VOCABULARIES.values() for collection in vocabulary.collections)


def check_collection(collection: str) -> str:
    """Return `collection`, or raise `BadInput` if no vocabulary has it."""
    if collection not in collections():
        raise BadInput(f"unknown collection '{collection[:80]}'; use one of {', '.join(collections())}")
    return collection


def native_text(event: Event) -> str:
    """The event in native JSON, or as a core event if it follows no vocabulary."""
    vocabulary = for_type(event.fields.type)
    native = vocabulary.native_json(event) if vocabulary else None
    return event.wire_text if native is None else to_json(native).decode()


def affected_objects(fields: EventFields) -> tuple[ObjectRef, ...]:
    """The objects that an event is about, always including one that is found by the event's key, and each tag."""
    vocabulary, key = for_type(fields.type), fields.key
    refs = vocabulary.affected_objects(fields) if vocabulary else ()
    if key is not None:
        refs = _with_keyed_object(refs, key)
    return (*refs, *(ObjectRef(TAGGED, tag) for tag in fields.tags)) if fields.tags else refs


@lru_cache(maxsize=8192)
def _with_keyed_object(refs: tuple[ObjectRef, ...], key: str) -> tuple[ObjectRef, ...]:
    """Add a stateless object for the key if no object in `refs` is found by it."""
    return refs if not set(refs).isdisjoint(objects_with_key(key)) else (*refs, ObjectRef(KEYED, key))


@lru_cache(maxsize=8192)
def objects_with_key(key: str) -> tuple[ObjectRef, ...]:
    """The objects that together contain all events with this key."""
    refs = (ref for vocabulary in VOCABULARIES.values() for ref in vocabulary.objects_with_key(key))
    return (ObjectRef(KEYED, key), *refs)


def is_exact(ref: ObjectRef) -> bool:
    """Whether the path is that of a single object, not of a folder."""
    vocabulary = for_collection(ref.collection)
    return not ref.path.endswith(("/", "/*")) and (vocabulary is None or vocabulary.is_exact(ref))


def is_unique(ref: ObjectRef) -> bool:
    """Whether a path query with this path can match this object only."""
    vocabulary = for_collection(ref.collection)
    return is_exact(ref) and (vocabulary is None or vocabulary.is_unique(ref))


def canonical_query(collection: str, query: PathQuery) -> PathQuery:
    """The query with its paths in the form in which the collection stores them."""
    vocabulary = for_collection(collection)
    if vocabulary is None:
        return query
    return PathQuery(
        tuple(PathPattern(vocabulary.canonical_path(collection, pattern.text)) for pattern in query.patterns)
    )


def matches(query: PathQuery, ref: ObjectRef) -> bool:
    vocabulary = for_collection(ref.collection)
    if vocabulary is None:
        return query.matches(ref.path)
    location = vocabulary.location(ref)
    return any(
        pattern.text in (ref.path, location)
        if pattern.folder is None
        else pattern.matches(location) or ref.path == _folder_path(ref.collection, pattern)
        for pattern in query.patterns
    )


def path_prefixes(collection: str, pattern: PathPattern) -> tuple[str, ...]:
    """Prefixes of the paths of all objects in `collection` that match the pattern."""
    folder_path = _folder_path(collection, pattern)
    prefix = pattern.text if pattern.folder is None else pattern.folder
    return (prefix,) if folder_path is None or folder_path.startswith(prefix) else (prefix, folder_path)


def _folder_path(collection: str, pattern: PathPattern) -> str | None:
    """The path of the object that is the folder of a pattern such as `/a/`, which belongs to its own tree."""
    vocabulary = for_collection(collection)
    if vocabulary is None or pattern.folder is None or pattern.is_flat:
        return None
    return vocabulary.folder_path(collection, pattern.folder)


def fold(collection: str, state: State | None, event: Event) -> State | None:
    """The state of an object of `collection` after `event`.

    Any publisher may use a vocabulary's event types. Events that do not follow the vocabulary change no state.
    """
    vocabulary = for_type(event.fields.type)
    native = vocabulary.native_json(event) if vocabulary and collection not in (KEYED, TAGGED) else None
    if vocabulary is None or native is None:
        return state
    return vocabulary.fold(collection, state, event, native)


def is_full_state(collection: str, state: State) -> bool:
    """Whether the stored state is complete, so that the object's events need not be read."""
    vocabulary = for_collection(collection)
    return vocabulary is None or vocabulary.is_full_state(state)


def full_state(collection: str, events: Iterable[Event]) -> State | None:
    """The state of an object from all its events, without any size limit."""
    vocabulary = for_collection(collection)
    if vocabulary is None:
        return None
    pairs = ((event, vocabulary.native_json(event)) for event in events if for_type(event.fields.type) is vocabulary)
    return vocabulary.full_state(collection, ((event, native) for event, native in pairs if native is not None))


def summarize(ref: ObjectRef, state: State) -> ObjectSummary:
    """The object's entry in a list."""
    vocabulary = for_collection(ref.collection)
    return ObjectSummary(ref.path, ref.path, "", "") if vocabulary is None else vocabulary.summarize(ref, state)
