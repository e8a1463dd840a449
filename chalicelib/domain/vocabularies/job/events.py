"""AnyJob's nine events: their fields, and how they become core events.

The node and the type of the job are subtypes, so that observers can select by them; the time is the log's own.
"""

import re
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import EventType, Subtype
from chalicelib.domain.lazy import once_for_each
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.domain.timestamps import LAST_S

JOB = "job"
JOBSET = "jobset"

Number = Annotated[WholeNumber, Field(ge=0, lt=2**53)]
Seconds = Annotated[WholeNumber, Field(ge=0, le=LAST_S)]
Texts = Annotated[dict[str, str], Field(default_factory=dict)]
Success = Literal["0", "1"]


class Data(Model):
    """What a job has to show."""

    text: str


class Log(Model):
    """A line that a job logged; its time is the event's if it has none."""

    time: Number | None = None
    message: str
    level: WholeNumber = 0
    tag: str = ""


class _Named(Model):
    """What all events say; a `time` of the publisher is kept as the source's."""

    time: Seconds | None = None
    node: Subtype
    id: Number


class _OfJob(_Named):
    jobset: Number | None = None


class _OfTypedJob(_OfJob):
    type: Subtype
    params: Texts
    props: Texts


class Create(_OfTypedJob):
    """A job was created."""

    event: Literal["create"]


class Progress(_OfTypedJob):
    """A job goes on: it has another state, made progress, or logged something."""

    event: Literal["progress"]
    state: str | None = None
    progress: str | None = None
    log: Log | None = None
    data: Data | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.state is None and self.progress is None and self.log is None:
            raise ValueError("progress needs at least one of state, progress and log")
        return self


class Redirect(_OfJob):
    """A job goes to another node."""

    event: Literal["redirect"]
    redirect: Subtype
    type: Subtype | None = None
    params: dict[str, str] | None = None
    props: dict[str, str] | None = None


class Finish(_OfTypedJob):
    """A job ended."""

    event: Literal["finish"]
    success: Success
    message: str
    data: Data | None = None


class Clean(_OfTypedJob):
    """A job was silent for too long."""

    event: Literal["clean"]


class PlannedJob(Model):
    """A job of a set, as the set was created."""

    node: Subtype
    type: Subtype
    params: Texts
    props: Texts


class SetJob(PlannedJob):
    """A job of a set, as it ended or was left."""

    id: Number | None = None
    state: str
    progress: str | None = None
    success: Success | None = None
    message: str | None = None


class EndedJob(SetJob):
    """A job of a set that ended."""

    id: Number
    success: Success
    message: str


class _OfJobSet(_Named):
    props: Texts


class CreateJobSet(_OfJobSet):
    """A set of jobs was created."""

    event: Literal["createJobSet"]
    jobs: Annotated[tuple[PlannedJob, ...], Field(fail_fast=True)]


class ProgressJobSet(_OfJobSet):
    """A set goes on."""

    event: Literal["progressJobSet"]
    state: str | None = None
    progress: str | None = None
    data: Data | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.state is None and self.progress is None:
            raise ValueError("progressJobSet needs at least one of state and progress")
        return self


class FinishJobSet(_OfJobSet):
    """All jobs of a set ended."""

    event: Literal["finishJobSet"]
    jobs: Annotated[tuple[EndedJob, ...], Field(fail_fast=True)]


class CleanJobSet(_OfJobSet):
    """A set was silent for too long."""

    event: Literal["cleanJobSet"]
    jobs: Annotated[tuple[SetJob, ...], Field(fail_fast=True)]


JobEvent = Create | Progress | Redirect | Finish | Clean | CreateJobSet | ProgressJobSet | FinishJobSet | CleanJobSet

OF_JOB = ("create", "progress", "redirect", "finish", "clean")
OF_JOBSET = ("createJobSet", "progressJobSet", "finishJobSet", "cleanJobSet")
EVENTS = (*OF_JOB, *OF_JOBSET)

# As we write it ourselves, or several keys would mean the same.
_KEY = re.compile(r"/(?P<root>job|jobset)/(?P<number>0|[1-9][0-9]{0,15})", re.ASCII)


def new_event(value: object) -> NewEvent:
    """The core event of an event in AnyJob's JSON."""
    parsed = _any_event().validate_python(value, by_alias=True, by_name=False)
    fields = parsed.model_dump(exclude={"event", "time", "node", "id"}, exclude_none=True)
    root = JOB if parsed.event in OF_JOB else JOBSET
    event_type: EventType = (root, parsed.event, parsed.node)
    if root == JOB and not isinstance(parsed, Redirect):
        event_type = (*event_type, fields.pop("type"))
    source: Any = None if parsed.time is None else {"s": parsed.time, "us": 0}
    return NewEvent(
        type=event_type,
        key=f"/{root}/{parsed.id}",
        source_timestamp=source,
        payload=JsonPayload(type="json", data=fields),
    )


@once_for_each
def own_json(event: Event) -> dict[str, Any] | None:
    """The event in AnyJob's JSON; None if it does not follow the vocabulary. It is the same for all who ask."""
    stored = event.stored
    named = _named(stored.type, stored.key)
    fields = None if stored.payload is None else stored.payload["data"]
    if named is None or not isinstance(fields, dict) or not named.keys().isdisjoint(fields):
        return None
    parsed = _parsed({**named, **fields})
    if parsed is None:
        return None
    # As it was parsed: whoever wrote a core event by hand may have left out what is optional, or written null.
    own = parsed.model_dump(mode="json", exclude={"event", "time"}, exclude_none=True)
    time_s = event.at // 1_000_000
    if "log" in own:
        own["log"] = {"time": time_s, **own["log"]}
    return {"eventId": event.event_id, "event": parsed.event, "time": time_s, **own}


@lru_cache(maxsize=8192)
def number_of(root: str, key: str | None) -> int | None:
    """The id of the job or set that has this key; None if it is no such key."""
    found = _KEY.fullmatch(key or "")
    return int(found["number"]) if found and found["root"] == root else None


def _named(event_type: EventType, key: str | None) -> dict[str, Any] | None:
    """What type and key say, in AnyJob's JSON."""
    match event_type:
        case ("job", "redirect", node):
            named = {"event": "redirect", "node": node}
        case ("job", name, node, job_type) if name in OF_JOB and name != "redirect":
            named = {"event": name, "node": node, "type": job_type}
        case ("jobset", name, node) if name in OF_JOBSET:
            named = {"event": name, "node": node}
        case _:
            return None
    number = number_of(event_type[0], key)
    return None if number is None else {**named, "id": number}


def _parsed(own: dict[str, Any]) -> JobEvent | None:
    try:
        return _any_event().validate_python(own, by_alias=True, by_name=False)
    except ValidationError:
        return None


@cache
def _any_event() -> TypeAdapter[JobEvent]:
    any_of_them: Any = Annotated[JobEvent, Field(discriminator="event")]
    return TypeAdapter(any_of_them)
