"""Which alert an event raises or resolves, for receivers that keep one incident open per problem."""

from dataclasses import dataclass
from typing import Any, Literal

from chalicelib.domain.events.event import EventFields

ALARM_KINDS = ("missed", "late", "overdue", "early")
"""The second subtype of the alarms of an expectation."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A problem. All events about the same problem have the same subject."""

    action: Literal["trigger", "resolve"]
    subject: str
    """The name of a job type or expectation, or a path such as `jobset/815`."""


def alert_of(fields: EventFields) -> Alert | None:
    """The alert that the event raises or resolves, if any."""
    data = fields.payload["data"] if fields.payload and fields.payload["type"] == "json" else None
    values: dict[str, Any] = data if isinstance(data, dict) else {}
    match fields.type:
        case ("job", "finish", _, job_type):
            is_problem, subject = values.get("success") == "0", job_type
        case ("job", "clean", _, job_type):
            is_problem, subject = True, job_type
        case ("job", kind, *_) if kind in ALARM_KINDS:
            is_problem, subject = True, _expectation(fields)
        case ("job", "recovered", *_):
            is_problem, subject = False, _expectation(fields)
        case ("jobset", "finishJobSet", *_) if values.get("jobs"):  # Empty if they do not fit in the event.
            is_problem, subject = _has_failed_job(values), _path(fields)
        case ("jobset", "cleanJobSet", *_) | ("notification", "failed", *_):
            is_problem, subject = True, _path(fields)
        case _:
            return None
    return Alert("trigger" if is_problem else "resolve", subject)


def _expectation(fields: EventFields) -> str:
    return (fields.key or "").removeprefix("/expectation/")


def _path(fields: EventFields) -> str:
    return (fields.key or "").removeprefix("/")


def _has_failed_job(values: dict[str, Any]) -> bool:
    jobs = values.get("jobs")
    return isinstance(jobs, list) and any(isinstance(job, dict) and job.get("success") == "0" for job in jobs)
