"""The events of a push job: their fields, their status words, and how they become core events."""

from functools import cache
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, StrictBool, StringConstraints, TypeAdapter, ValidationError, model_validator
from pydantic_core import to_json

from chalicelib.domain.events.event import Event, JsonPayload, NewEvent, Stored
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.domain.objects.ref import ObjectRef

NAME = "push"
PUSH_JOB = "pushJob"
"""The one collection."""

MOST_START_BYTES = 8_000
"""A job's state holds what its start says, and states are small."""

_FOLDER = "/push"

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
"""How a node answers when asked whether it will run the command. (The origin's spelling.)"""
RunResult = Literal[
    "success", "failure", "crashed", "run_nacked", "run_nacked_while_running", "client_died_while_running"
]
JobResult = Literal["complete", "quorum_failed", "timed_out", "crashed", "aborted"]


class _PushEvent(Model):
    job: JobId


class Start(_PushEvent):
    """The job is requested; without a quorum all nodes have to be willing."""

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
    def _not_too_large(self) -> Self:
        size = len(to_json(self))
        if size > MOST_START_BYTES:
            raise ValueError(f"a start takes at most {MOST_START_BYTES} bytes, not {size}")
        return self


class QuorumVote(_PushEvent):
    """A node has voted, or will not."""

    event: Literal["quorum_vote"]
    node: Node
    status: Vote


class QuorumSucceeded(_PushEvent):
    """Enough nodes are willing: they are told to run the command."""

    event: Literal["quorum_succeeded"]


class RunStart(_PushEvent):
    """A node begins to run the command."""

    event: Literal["run_start"]
    node: Node


class RunComplete(_PushEvent):
    """A node has run the command, or will not."""

    event: Literal["run_complete"]
    node: Node
    status: RunResult


class JobComplete(_PushEvent):
    """The job is over."""

    event: Literal["job_complete"]
    status: JobResult


class Rehab(_PushEvent):
    """A node is told to abort whatever it does."""

    event: Literal["rehab"]
    node: Node


PushEvent = Start | QuorumVote | QuorumSucceeded | RunStart | RunComplete | JobComplete | Rehab

TYPES: tuple[EventType, ...] = tuple(
    (NAME, get_args(one.model_fields["event"].annotation)[0]) for one in get_args(PushEvent)
)
"""The core types of all of them."""


def new_event(value: object) -> NewEvent:
    """The core event of an event in the vocabulary's own JSON."""
    parsed = _any_event().validate_python(value, by_alias=True, by_name=False)
    fields = parsed.model_dump(exclude={"event", "job"})
    if isinstance(parsed, Start) and parsed.quorum is None:
        fields["quorum"] = parsed.node_count
    fields = {name: value for name, value in fields.items() if value is not None}
    return NewEvent(
        type=(NAME, parsed.event),
        key=key_of(parsed.job),
        payload=JsonPayload(type="json", data=fields) if fields else None,
    )


def own_json(event: Event) -> dict[str, Any] | None:
    """The event in the vocabulary's own JSON, with its EventId; None if it does not follow the vocabulary."""
    stored = event.stored
    path = _path(stored.key)
    fields = {} if stored.payload is None else stored.payload["data"]
    if stored.type not in TYPES or path is None or not isinstance(fields, dict):
        return None
    own = {"event": stored.type[1], "job": path[1:]}
    if not own.keys().isdisjoint(fields) or not _follows({**own, **fields}):
        return None
    # Whoever wrote a core event by hand may have written null for what is optional.
    given = {name: value for name, value in fields.items() if value is not None}
    return {"eventId": event.event_id, **own, **given}


def key_of(job: str) -> str:
    """The key of a job's events."""
    return f"{_FOLDER}/{job}"


def objects_of(stored: Stored) -> tuple[ObjectRef, ...]:
    """The job that the event is about."""
    path = _path(stored.key)
    return () if path is None or stored.type not in TYPES else (ObjectRef(PUSH_JOB, path),)


def refs_of_key(key: str) -> tuple[ObjectRef, ...]:
    """The job whose events have this key."""
    path = _path(key)
    return () if path is None else (ObjectRef(PUSH_JOB, path),)


def canonical(collection: str, path: str) -> str:
    """A job is found by its id; whoever writes its key means the same."""
    del collection
    return path.removeprefix(_FOLDER) if path.startswith(f"{_FOLDER}/") else path


def aliases(ref: ObjectRef) -> tuple[str, ...]:
    """A job is found by its id alone."""
    return (ref.path,)


def is_exact(ref: ObjectRef) -> bool:
    """Ids have no slash in them, so there are no folders of jobs."""
    return "/" not in ref.path[1:]


def is_unique(ref: ObjectRef) -> bool:
    """Each job has its own path."""
    del ref
    return True


def _path(key: str | None) -> str | None:
    """Where the job with this key is found, if it is a job's."""
    if key is None or not key.startswith(f"{_FOLDER}/"):
        return None
    path = key.removeprefix(_FOLDER)
    return path if len(path) > 1 and "/" not in path[1:] else None


def _follows(own: dict[str, Any]) -> bool:
    try:
        _any_event().validate_python(own, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


@cache
def _any_event() -> TypeAdapter[PushEvent]:
    any_of_them: Any = Annotated[PushEvent, Field(discriminator="event")]
    return TypeAdapter(any_of_them)
