"""What AnyJob's events are about: jobs, and sets of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import from_json, to_json

from chalicelib.domain.events.event import Event, Stored
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies.job.events import JOB, JOBSET, OF_JOB, OF_JOBSET, number_of
from chalicelib.domain.vocabularies.job.jobs import folded_job
from chalicelib.domain.vocabularies.job.jobsets import ended_of, failed_of, folded_jobset

COLLECTIONS: Mapping[str, str] = {JOB: "jobs", JOBSET: "jobsets"}

MOST_BYTES = 1_500
"""A stored state leaves out what is larger; that is found by reading the object's events."""
_MAY_BE_LARGE = ("params", "props", "state", "progress", "data", "result", "logs", "redirects", "jobs")

Fields = Mapping[str, Any]


def objects_of(stored: Stored) -> tuple[ObjectRef, ...]:
    """The job or set that the event is about; a job's event also its set."""
    root, name = stored.type[:2] if len(stored.type) > 1 else ("", "")
    number = number_of(root, stored.key)
    if number is None or name not in (OF_JOB if root == JOB else OF_JOBSET):
        return ()
    own = ObjectRef(root, f"/{number}")
    payload = stored.payload if root == JOB else None
    data = payload["data"] if payload is not None and payload["type"] == "json" else None
    jobset = data.get("jobset") if isinstance(data, dict) else None
    return (own, ObjectRef(JOBSET, f"/{jobset}")) if isinstance(jobset, int) and jobset >= 0 else (own,)


def refs_of_key(key: str) -> tuple[ObjectRef, ...]:
    """The job or set whose events have this key."""
    numbers = ((root, number_of(root, key)) for root in COLLECTIONS)
    return tuple(ObjectRef(root, f"/{number}") for root, number in numbers if number is not None)


def canonical(collection: str, path: str) -> str:
    """A job is found by its id; whoever writes its key means the same."""
    return path.removeprefix(f"/{collection}") if path.startswith(f"/{collection}/") else path


def aliases(ref: ObjectRef) -> tuple[str, ...]:
    """It is found by its id alone."""
    return (ref.path,)


def is_exact(ref: ObjectRef) -> bool:
    """Ids have no slash in them."""
    return "/" not in ref.path[1:]


def is_unique(ref: ObjectRef) -> bool:
    """Each has its own id."""
    del ref
    return True


def fold(collection: str, state: State | None, event: Event, own: Fields) -> State | None:
    """The job or set after `event`, as it is stored."""
    # The state that was is still somebody's, so a copy is changed.
    found = _folded(collection, None if state is None else from_json(to_json(state)), event, own)
    if found is None or len(to_json(found)) <= MOST_BYTES:
        return found
    small = {name: _small(name, value) for name, value in found.items()}
    return {**small, **_remembered(small, found)}


def whole(collection: str, events: Iterable[tuple[Event, Fields]]) -> State | None:
    """The job or set with all that it has to tell."""
    state: dict[str, Any] | None = None
    for event, own in events:
        state = _folded(collection, state, event, own)
    return state


def is_whole(state: State) -> bool:
    """Tell whether nothing was left out."""
    return all(state.get(name, "") is not None for name in _MAY_BE_LARGE)


def _folded(collection: str, state: dict[str, Any] | None, event: Event, own: Fields) -> dict[str, Any] | None:
    return (folded_job if collection == JOB else folded_jobset)(state, event.event_id, own)


def _remembered(small: Fields, found: Fields) -> Fields:
    """What must be known of what is left out: how the job ended, which jobs of the set did, and how many failed."""
    remembered: dict[str, Any] = {}
    if small.get("result", "") is None and found["result"] is not None:
        remembered["success"] = found["result"]["success"]
    if small.get("jobs", "") is None and found["jobs"] is not None:
        remembered |= {"ended": ended_of(found), "failed": failed_of(found)}
    return remembered


def _small(name: str, value: Any) -> Any:
    return value if name not in _MAY_BE_LARGE or len(to_json(value)) <= MOST_BYTES else None
