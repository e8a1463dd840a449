"""AnyJob's nine events, and their conversion to and from core events.

The node and the type of a job become subtypes, so that observers can select by them. Readers see the time
of the commit as the `time` of an event.
"""

import re
from functools import cache, lru_cache
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticKnownError

from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import SUBTYPE_REGEX, EventType
from chalicelib.domain.json_schema import with_members
from chalicelib.domain.lazy import cached_on_instance
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.domain.timestamps import MAX_TIMESTAMP_S

JOB = "job"
JOBSET = "jobset"
MAX_JOBS_OF_SET = 1_000_000

_STORED: Final = "stored"
"""Validation context of events that are in the log, or follow from such events."""


def _check_not_empty(name: str, info: ValidationInfo) -> str:
    if not name and info.context != _STORED:
        raise PydanticKnownError("string_too_short", {"min_length": 1})
    return name


Name = Annotated[
    str,
    StringConstraints(pattern=SUBTYPE_REGEX),
    AfterValidator(_check_not_empty),
    WithJsonSchema({"type": "string", "minLength": 1, "pattern": SUBTYPE_REGEX}),
]
"""The name of a node or of a job type. It becomes a subtype, but an empty name is a mistake of the publisher.

Logs may contain empty names, which an earlier version accepted.
"""
Number = Annotated[WholeNumber, Field(ge=0, lt=2**53)]
Seconds = Annotated[WholeNumber, Field(ge=0, le=MAX_TIMESTAMP_S)]
Texts = Annotated[dict[str, str], Field(default_factory=dict)]
Success = Literal["0", "1"]


class Data(Model):
    """Output of a job."""

    text: str


class Log(Model):
    """A log line of a job. The default time is that of the event."""

    time: Number | None = None
    message: str
    level: WholeNumber = 0
    tag: str = ""


class _AnyJobEvent(Model):
    """Fields of all events. The publisher's `time` becomes the source timestamp."""

    time: Seconds | None = None
    node: Name
    id: Number


class _JobEvent(_AnyJobEvent):
    jobset: Number | None = None


class _TypedJobEvent(_JobEvent):
    type: Name
    params: Texts
    props: Texts


class Create(_TypedJobEvent):
    """A job was created. Without an id the server assigns the next number."""

    event: Literal["create"]
    id: Number | None = None  # type: ignore[assignment]  # Only a stored event has to have it.


class Progress(_TypedJobEvent):
    """A job has a new state, made progress, or logged a line."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [with_members("state"), with_members("progress"), with_members("log")]}
    )

    event: Literal["progress"]
    state: str | None = None
    progress: str | None = None
    log: Log | None = None
    data: Data | None = None

    @model_validator(mode="after")
    def _validate_not_empty(self) -> Self:
        if self.state is None and self.progress is None and self.log is None:
            raise ValueError("progress needs at least one of state, progress and log")
        return self


class Redirect(_JobEvent):
    """A job moves to another node."""

    event: Literal["redirect"]
    redirect: Name
    type: Name | None = None
    params: dict[str, str] | None = None
    props: dict[str, str] | None = None


class Finish(_TypedJobEvent):
    """A job has finished."""

    event: Literal["finish"]
    success: Success
    message: str
    data: Data | None = None


class Clean(_TypedJobEvent):
    """A job was closed because it had no events for too long."""

    event: Literal["clean"]


class PlannedJob(Model):
    """A job in a `createJobSet` event."""

    node: Name
    type: Name
    params: Texts
    props: Texts


class SetJob(PlannedJob):
    """A job in a `cleanJobSet` event."""

    id: Number | None = None
    state: str
    progress: str | None = None
    success: Success | None = None
    message: str | None = None


class EndedJob(SetJob):
    """A job in a `finishJobSet` event."""

    id: Number
    success: Success
    message: str


class _JobSetEvent(_AnyJobEvent):
    props: Texts


class CreateJobSet(_JobSetEvent):
    """A set of jobs was created. `total` is its number of jobs, if they are too many to list them."""

    event: Literal["createJobSet"]
    jobs: Annotated[tuple[PlannedJob, ...], Field(fail_fast=True)]
    total: Annotated[WholeNumber, Field(ge=1, le=MAX_JOBS_OF_SET)] | None = None

    @model_validator(mode="after")
    def _validate_total(self) -> Self:
        if self.total is not None and self.total < len(self.jobs):
            raise ValueError("total is less than the number of jobs")
        return self


class ProgressJobSet(_JobSetEvent):
    """A set has a new state or made progress."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [with_members("state"), with_members("progress")]})

    event: Literal["progressJobSet"]
    state: str | None = None
    progress: str | None = None
    data: Data | None = None

    @model_validator(mode="after")
    def _validate_not_empty(self) -> Self:
        if self.state is None and self.progress is None:
            raise ValueError("progressJobSet needs at least one of state and progress")
        return self


class FinishJobSet(_JobSetEvent):
    """All jobs of a set have finished."""

    event: Literal["finishJobSet"]
    jobs: Annotated[tuple[EndedJob, ...], Field(fail_fast=True)]


class CleanJobSet(_JobSetEvent):
    """A set was closed because it had no events for too long."""

    event: Literal["cleanJobSet"]
    jobs: Annotated[tuple[SetJob, ...], Field(fail_fast=True)]


JobEvent = Create | Progress | Redirect | Finish | Clean | CreateJobSet | ProgressJobSet | FinishJobSet | CleanJobSet

JOB_EVENTS = ("create", "progress", "redirect", "finish", "clean")
JOBSET_EVENTS = ("createJobSet", "progressJobSet", "finishJobSet", "cleanJobSet")
EVENT_NAMES = (*JOB_EVENTS, *JOBSET_EVENTS)

# Without leading zeros, so that each object has exactly one key.
_KEY = re.compile(r"/(?P<root>job|jobset)/(?P<id>0|[1-9][0-9]{0,15})", re.ASCII)


def new_event(value: object) -> NewEvent:
    """Convert AnyJob's JSON of a publisher to a core event. Raises `ValidationError`.

    The event of a job that is created without an id has no key, see `is_without_id`.
    """
    return _core_event(event_adapter().validate_python(value, by_alias=True, by_name=False))


def follow_up_event(value: object) -> NewEvent:
    """Convert AnyJob's JSON of an event that follows from stored ones, whose names may be empty, to a core event."""
    return _core_event(event_adapter().validate_python(value, by_alias=True, by_name=False, context=_STORED))


def _core_event(parsed: JobEvent) -> NewEvent:
    fields = parsed.model_dump(exclude={"event", "time", "node", "id"}, exclude_none=True)
    root = JOB if parsed.event in JOB_EVENTS else JOBSET
    event_type: EventType = (root, parsed.event, parsed.node)
    if root == JOB and not isinstance(parsed, Redirect):
        event_type = (*event_type, fields.pop("type"))
    if isinstance(parsed, CreateJobSet):
        # Without empty params and props, twice as many planned jobs fit in a commit.
        fields["jobs"] = [{name: value for name, value in job.items() if value} for job in fields["jobs"]]
    source_time: Any = None if parsed.time is None else {"s": parsed.time, "us": 0}
    return NewEvent(
        type=event_type,
        key=None if parsed.id is None else f"/{root}/{parsed.id}",
        source_timestamp=source_time,
        payload=JsonPayload(type="json", data=fields),
    )


@cached_on_instance
def native_json(event: Event) -> dict[str, Any] | None:
    """The event in AnyJob's JSON. None if it does not follow the vocabulary. Callers must not change the result."""
    payload = event.fields.payload
    base = _fields_from_type_and_key(event.fields.type, event.fields.key)
    data = None if payload is None else payload["data"]
    if base is None or not isinstance(data, dict) or not base.keys().isdisjoint(data):
        return None
    try:
        parsed = event_adapter().validate_python({**base, **data}, by_alias=True, by_name=False, context=_STORED)
    except ValidationError:
        return None
    # Dump the parsed model: an event that was published as a core event may lack optional fields or contain null.
    native = parsed.model_dump(mode="json", exclude={"event", "time"}, exclude_none=True)
    time_s = event.at_us // 1_000_000
    if "log" in native:
        native["log"] = {"time": time_s, **native["log"]}
    return {"eventId": event.event_id, "event": parsed.event, "time": time_s, **native}


@lru_cache(maxsize=8192)
def id_from_key(root: str, key: str | None) -> int | None:
    """The id of the job or set with this key. None if the key has another form."""
    match = _KEY.fullmatch(key or "")
    return int(match["id"]) if match and match["root"] == root else None


def _fields_from_type_and_key(event_type: EventType, key: str | None) -> dict[str, Any] | None:
    match event_type:
        case ("job", "redirect", node):
            fields = {"event": "redirect", "node": node}
        case ("job", name, node, job_type) if name in JOB_EVENTS and name != "redirect":
            fields = {"event": name, "node": node, "type": job_type}
        case ("jobset", name, node) if name in JOBSET_EVENTS:
            fields = {"event": name, "node": node}
        case _:
            return None
    object_id = id_from_key(event_type[0], key)
    return None if object_id is None else {**fields, "id": object_id}


@cache
def event_adapter() -> TypeAdapter[JobEvent]:
    annotated: Any = Annotated[JobEvent, Field(discriminator="event")]
    return TypeAdapter(annotated)
