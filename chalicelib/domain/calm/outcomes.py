"""What an event says about its job: a failure, a success, a recovery, or nothing. And the group that it belongs to."""

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

from chalicelib.domain.calm.rule import GroupBy
from chalicelib.domain.events.event import EventFields
from chalicelib.domain.events.event_type import EventType, join_subtypes
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.alert import ALARM_KINDS

Outcome = Literal["failure", "success", "recovery", "other"]
MAX_GROUP_CHARS = 80
"""Longer names are replaced by their digest, so that the state of an observer is bounded."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the calm rules need to know about an event."""

    id: Id
    event_id: int
    group: str
    outcome: Outcome
    passes: bool = True
    """Whether the observer would notify of the event without calm rules."""
    is_muted: bool = False
    """Whether the event is silenced or acknowledged."""


def outcome_of(fields: EventFields) -> Outcome:
    match fields.type:
        case ("job", "finish", _, _):
            return "success" if str(_data(fields).get("success")) == "1" else "failure"
        case ("job", "clean", _, _) | ("jobset", "cleanJobSet", _) | ("notification", "failed", *_):
            return "failure"
        case ("job", kind, *_) if kind in ALARM_KINDS:
            return "failure"
        case ("job", "recovered", *_):
            return "recovery"
        case ("jobset", "finishJobSet", _):
            return _jobset_outcome(_data(fields))
        case _:
            return "other"


def job_type_of(fields: EventFields) -> str:
    """The type of the event's job. Empty if it has none."""
    match fields.type:
        case ("job", "redirect", *_):
            return str(_data(fields).get("type") or "")
        case ("job", _, _, job_type):
            return job_type
        case _:
            return ""


def group_of(fields: EventFields, group_by: tuple[GroupBy, ...]) -> str:
    """The name of the event's group. Events of no job are grouped by their own type instead of a job's."""
    values = {"type": _type_name(fields), "node": _node(fields.type), "key": fields.key or ""}
    name = "/".join(values[part] for part in group_by)
    if len(name) <= MAX_GROUP_CHARS:
        return name
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def _jobset_outcome(data: dict[str, Any]) -> Outcome:
    """A set without a list of jobs, because it would be too long, says nothing about them."""
    jobs = data.get("jobs")
    if not isinstance(jobs, list) or not jobs:
        return "other"
    failed = any(not isinstance(job, dict) or str(job.get("success")) != "1" for job in jobs)
    return "failure" if failed else "success"


def _type_name(fields: EventFields) -> str:
    match fields.type:
        case ("job", *_):
            return job_type_of(fields)
        case ("jobset", *_):
            return "jobset"
        case _:
            return join_subtypes(fields.type)


def _node(event_type: EventType) -> str:
    return event_type[2] if event_type[:1] in (("job",), ("jobset",)) and len(event_type) > 2 else ""


def _data(fields: EventFields) -> dict[str, Any]:
    match fields.payload:
        case {"type": "json", "data": dict(data)}:
            return data
        case _:
            return {}
