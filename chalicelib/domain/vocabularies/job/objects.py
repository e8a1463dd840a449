"""Jobs, job sets and job types: the objects that AnyJob's events describe."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import from_json, to_json

from chalicelib.domain.events.event import Event, EventFields
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies.job.events import JOB, JOB_EVENTS, JOBSET, JOBSET_EVENTS, id_from_key
from chalicelib.domain.vocabularies.job.job_types import JOB_TYPE_EVENTS, fold_job_type
from chalicelib.domain.vocabularies.job.jobs import fold_job
from chalicelib.domain.vocabularies.job.jobsets import failed_job_ids, finished_job_ids, fold_jobset, full_jobset

JOB_TYPE = "jobType"
COLLECTIONS: Mapping[str, str] = {JOB: "jobs", JOBSET: "jobsets", JOB_TYPE: "jobTypes"}

MAX_FIELD_BYTES = 1_500
"""If a state is larger than this, fields that are larger are stored as None. `full_state` has them."""
MAX_ENDED_BYTES = 8 * 1024
"""If the ids of the ended and failed jobs of a set are larger than this, they are not stored."""
_TYPED_LENGTH = 4
"""Number of subtypes of `job/create/<node>/<type>`."""
_VARIABLE_SIZE_FIELDS = ("params", "props", "state", "progress", "data", "result", "logs", "redirects", "jobs")

Fields = Mapping[str, Any]


def affected_objects(fields: EventFields) -> tuple[ObjectRef, ...]:
    """The job or set with the event's key, the set to which the job belongs, and the type whose statistics change."""
    root, name = fields.type[:2] if len(fields.type) > 1 else ("", "")
    object_id = id_from_key(root, fields.key)
    if object_id is None or name not in (JOB_EVENTS if root == JOB else JOBSET_EVENTS):
        return ()
    ref = ObjectRef(root, f"/{object_id}")
    payload = fields.payload if root == JOB else None
    data = payload["data"] if payload is not None and payload["type"] == "json" else None
    jobset = data.get("jobset") if isinstance(data, dict) else None
    refs = (ref, ObjectRef(JOBSET, f"/{jobset}")) if isinstance(jobset, int) and jobset >= 0 else (ref,)
    # Logs may contain empty types, which are no names of objects.
    has_type = name in JOB_TYPE_EVENTS and len(fields.type) == _TYPED_LENGTH and fields.type[-1]
    return (*refs, ObjectRef(JOB_TYPE, f"/{fields.type[-1]}")) if has_type else refs


def objects_with_key(key: str) -> tuple[ObjectRef, ...]:
    ids = ((collection, id_from_key(collection, key)) for collection in COLLECTIONS)
    return tuple(ObjectRef(collection, f"/{object_id}") for collection, object_id in ids if object_id is not None)


def fold(collection: str, state: State | None, event: Event, native: Fields) -> State | None:
    """The stored state of the job, set or type after `event`."""
    if collection == JOB_TYPE:
        return fold_job_type(state, event.event_id, native)
    # `_fold` changes its argument, but callers may still use the old state.
    folded = _fold(collection, None if state is None else from_json(to_json(state)), event, native)
    if folded is None or len(to_json(folded)) <= MAX_FIELD_BYTES:
        return folded
    small = {name: _omit_if_large(name, value) for name, value in folded.items()}
    stored = {**small, **_substitutes(small, folded)}
    if len(to_json([stored.get("ended"), stored.get("failures")])) > MAX_ENDED_BYTES:
        del stored["ended"], stored["failures"]
    return stored


def full_state(collection: str, events: Iterable[tuple[Event, Fields]]) -> State | None:
    if collection == JOBSET:
        return full_jobset((event.event_id, native) for event, native in events)
    if collection == JOB_TYPE:
        job_type: State | None = None
        for event, native in events:
            job_type = fold_job_type(job_type, event.event_id, native)
        return job_type
    job: dict[str, Any] | None = None
    for event, native in events:
        job = fold_job(job, event.event_id, native)
    return job


def is_full_state(state: State) -> bool:
    return all(state.get(name, "") is not None for name in _VARIABLE_SIZE_FIELDS)


def _fold(collection: str, state: dict[str, Any] | None, event: Event, native: Fields) -> dict[str, Any] | None:
    return (fold_job if collection == JOB else fold_jobset)(state, event.event_id, native)


def _omit_if_large(name: str, value: Any) -> Any:
    return value if name not in _VARIABLE_SIZE_FIELDS or len(to_json(value)) <= MAX_FIELD_BYTES else None


def _substitutes(small: Fields, folded: Fields) -> Fields:
    """Facts needed from omitted fields: how the job ended, which jobs of the set finished, and which of them failed."""
    substitutes: dict[str, Any] = {}
    if small.get("result", "") is None and folded["result"] is not None:
        substitutes["success"] = folded["result"]["success"]
    if small.get("jobs", "") is None and folded["jobs"] is not None:
        failures = failed_job_ids(folded)
        substitutes |= {"ended": finished_job_ids(folded), "failures": failures, "failed": len(failures)}
    return substitutes
