"""The events of push jobs, and their conversion to and from core events."""

from functools import cache
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, StrictBool, StringConstraints, TypeAdapter, ValidationError, model_validator
from pydantic_core import to_json

from chalicelib.domain.events.event import Event, EventFields, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.domain.objects.ref import ObjectRef

NAME = "push"
PUSH_JOB = "pushJob"
"""The only collection of this vocabulary."""

MAX_START_BYTES = 8_000
"""A job's state contains the fields of its start event, and states must be small."""

FOLDER = "/push"

JobId = Annotated[str, StringConstraints(pattern=r"^[^/?*|\x00-\x1f\x7f]+$", max_length=200)]
Node = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Count = Annotated[WholeNumber, Field(ge=0, lt=2**53)]

Vote = Literal[
    "success",
    "failure",
    "down",
    "voting_timeout",
    "unexpected_commit",
    "lost_availibility",
    "client_died_while_voting",
]
"""A node's response to the request to run the command. The misspelling is in Chef's original."""
RunResult = Literal[
    "success", "failure", "crashed", "run_nacked", "run_nacked_while_running", "client_died_while_running"
]
JobResult = Literal["complete", "quorum_failed", "timed_out", "crashed", "aborted"]


class _PushEvent(Model):
    job: JobId


class Start(_PushEvent):
    """The job was requested. Without a quorum, all nodes must agree to run it."""

    event: Literal["start"]
    command: Annotated[str, StringConstraints(min_length=1)]
    run_timeout: Count
    quorum: Count | None = None
    node_count: Count
    user: str
    job_user: str | None = None
    dir: str | None = None
    env: dict[str, str] | None = None
    file_specified: StrictBool | None = None
    capture: StrictBool | None = None

    @model_validator(mode="after")
    def _validate_size(self) -> Self:
        size = len(to_json(self))
        if size > MAX_START_BYTES:
            raise ValueError(f"a start event may have at most {MAX_START_BYTES} bytes, not {size}")
        return self


class QuorumVote(_PushEvent):
    """A node has voted, or cannot vote."""

    event: Literal["quorum_vote"]
    node: Node
    status: Vote


class QuorumSucceeded(_PushEvent):
    """Enough nodes agreed, and are now requested to run the command."""

    event: Literal["quorum_succeeded"]


class RunStart(_PushEvent):
    """A node has started to run the command."""

    event: Literal["run_start"]
    node: Node


class RunComplete(_PushEvent):
    """A node has run the command, or cannot run it."""

    event: Literal["run_complete"]
    node: Node
    status: RunResult


class JobComplete(_PushEvent):
    """The job has ended."""

    event: Literal["job_complete"]
    status: JobResult


class Rehab(_PushEvent):
    """A node is requested to abort its current work."""

    event: Literal["rehab"]
    node: Node


PushEvent = Start | QuorumVote | QuorumSucceeded | RunStart | RunComplete | JobComplete | Rehab

EVENT_TYPES: tuple[EventType, ...] = tuple(
    (NAME, get_args(model.model_fields["event"].annotation)[0]) for model in get_args(PushEvent)
)
"""The core type of each event."""


def new_event(value: object) -> NewEvent:
    """Convert native JSON to a core event. Raises `ValidationError`."""
    parsed = event_adapter().validate_python(value, by_alias=True, by_name=False)
    fields = parsed.model_dump(exclude={"event", "job"})
    if isinstance(parsed, Start) and parsed.quorum is None:
        fields["quorum"] = parsed.node_count
    fields = {name: value for name, value in fields.items() if value is not None}
    return NewEvent(
        type=(NAME, parsed.event),
        key=job_key(parsed.job),
        payload=JsonPayload(type="json", data=fields) if fields else None,
    )


def native_json(event: Event) -> dict[str, Any] | None:
    """The event in native JSON, with its EventId. None if it does not follow the vocabulary."""
    path = _job_path(event.fields.key)
    data = {} if event.fields.payload is None else event.fields.payload["data"]
    if event.fields.type not in EVENT_TYPES or path is None or not isinstance(data, dict):
        return None
    native = {"event": event.fields.type[1], "job": path[1:]}
    if not native.keys().isdisjoint(data) or not _is_valid({**native, **data}):
        return None
    # An event that was published as a core event may contain null for optional fields.
    data = {name: value for name, value in data.items() if value is not None}
    return {"eventId": event.event_id, **native, **data}


def job_key(job: str) -> str:
    return f"{FOLDER}/{job}"


def affected_objects(fields: EventFields) -> tuple[ObjectRef, ...]:
    path = _job_path(fields.key)
    return () if path is None or fields.type not in EVENT_TYPES else (ObjectRef(PUSH_JOB, path),)


def objects_with_key(key: str) -> tuple[ObjectRef, ...]:
    path = _job_path(key)
    return () if path is None else (ObjectRef(PUSH_JOB, path),)


def _job_path(key: str | None) -> str | None:
    """The path of the job with this key. None if it is not a job's key."""
    if key is None or not key.startswith(f"{FOLDER}/"):
        return None
    path = key.removeprefix(FOLDER)
    return path if len(path) > 1 and "/" not in path[1:] else None


def _is_valid(native: dict[str, Any]) -> bool:
    try:
        event_adapter().validate_python(native, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


@cache
def event_adapter() -> TypeAdapter[PushEvent]:
    annotated: Any = Annotated[PushEvent, Field(discriminator="event")]
    return TypeAdapter(annotated)
