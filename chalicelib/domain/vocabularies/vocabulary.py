"""The functions that make up a vocabulary."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.domain.events.event import Event, EventFields, NewEvent
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import ObjectSummary

NativeJson = dict[str, Any]
"""An event in the JSON format of its vocabulary."""


def strip_folder(path: str, folder: str) -> str:
    """`path` relative to `folder`: `/job/7` is `/7` in `/job`. Paths outside the folder stay as they are."""
    return path.removeprefix(folder) if path.startswith(f"{folder}/") else path


def _unchanged_path(collection: str, path: str) -> str:
    del collection
    return path


def _no_path(collection: str, folder: str) -> None:
    del collection, folder


def _own_path(ref: ObjectRef) -> str:
    return ref.path


def _has_no_folder(ref: ObjectRef) -> bool:
    return "/" not in ref.path[1:]


def _always(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary:
    """An event format: how it maps to core events, and how its events fold into objects."""

    collections: Mapping[str, str]
    """Name of each collection of objects, and the field that lists its objects in a snapshot."""

    new_event: Callable[[object], NewEvent]
    """Convert native JSON to a core event. Raises `ValidationError`."""

    native_json: Callable[[Event], NativeJson | None]
    """The event in native JSON, with its eventId. None if it does not follow the vocabulary."""

    affected_objects: Callable[[EventFields], tuple[ObjectRef, ...]]
    """The objects whose state the event may change."""

    objects_with_key: Callable[[str], tuple[ObjectRef, ...]]
    """The objects that together contain all events with this key."""

    canonical_path: Callable[[str, str], str] = _unchanged_path
    """(collection, path) -> the path as it is stored. Some objects can also be addressed by their key."""

    location: Callable[[ObjectRef], str] = _own_path
    """The path that decides which folders contain the object. A path query finds the object by it, too."""

    folder_path: Callable[[str, str], str | None] = _no_path
    """(collection, folder with its final slash) -> path of the object that is this folder, if there can be one."""

    is_exact: Callable[[ObjectRef], bool] = _has_no_folder
    """Whether the path has the form of a single object's path."""

    is_unique: Callable[[ObjectRef], bool] = _always
    """Whether at most one object can have this path or location."""

    fold: Callable[[str, State | None, Event, NativeJson], State | None]
    """(collection, state, event, native JSON) -> the state after the event. None: the object does not exist.

    A state is stored again after each run of the projector, so it should leave out what only grows.
    """

    full_state: Callable[[str, Iterable[tuple[Event, NativeJson]]], State | None]
    """(collection, all events of the object) -> the state without any size limit."""

    is_full_state: Callable[[State], bool] = _always
    """Whether `fold` left nothing out of the stored state to keep it small."""

    summarize: Callable[[ObjectRef, State], ObjectSummary]
    """The object's entry in a list, from its stored state."""
