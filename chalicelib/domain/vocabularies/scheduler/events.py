"""JobScheduler's events: the hierarchy of their types, their fields, and how they become core events."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError, create_model

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.model import Model, WholeNumber

NAME = "scheduler"


def _order_key_checked(key: str) -> str:
    chain, _, order = key.partition(",")
    if len(chain) < 2 or not order:
        raise ValueError("the key of an order is written /job-chain,order-id")
    return key


Path = Annotated[str, StringConstraints(pattern=r"^/[^/?*|:]+(?:/[^/?*|:]+)*$", max_length=800)]
OrderKey = Annotated[
    str,
    StringConstraints(pattern=r"^/[^/?*|]+(?:/[^/?*|]+)*$", max_length=800),
    AfterValidator(_order_key_checked),
]
TypedPath = Annotated[
    str,
    StringConstraints(
        pattern=r"^(?:Folder|Job|JobChain|Lock|Monitor|Order|ProcessClass|Schedule):/[^?*|]*$", max_length=800
    ),
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
TaskId = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,18}$")]
Level = Annotated[str, StringConstraints(pattern=r"^(?:debug[1-9]|debug|detail|info|warn|warning|error|stderr)$")]


class TaskKey(Model):
    """Which task of which job."""

    job_path: Path = Field(alias="jobPath")
    task_id: TaskId = Field(alias="taskId")


class _Success(Model):
    TYPE: Literal["Success"]


class _Error(Model):
    TYPE: Literal["Error"]
    returnCode: WholeNumber  # noqa: N815  (the origin's name)


class _Keep(Model):
    TYPE: Literal["Keep"]


NodeTransition = Annotated[_Success | _Error | _Keep, Field(discriminator="TYPE")]

_Fields = Mapping[str, Any]

FAMILIES: Mapping[str, tuple[Any, Mapping[str, _Fields]]] = {
    "OrderEvent": (
        OrderKey,
        {
            "OrderAdded": {"nodeId": Name},
            "OrderRemoved": {},
            "OrderStarted": {"nodeId": Name | None, "taskId": TaskId | None},
            "OrderFinished": {"nodeId": Name},
            "OrderNestedStarted": {},
            "OrderNestedFinished": {},
            "OrderStepStarted": {"nodeId": Name, "taskId": TaskId},
            "OrderStepEnded": {"nodeTransition": NodeTransition},
            "OrderSetBack": {"nodeId": Name},
            "OrderNodeChanged": {"nodeId": Name, "fromNodeId": Name},
            "OrderSuspended": {},
            "OrderResumed": {},
            "OrderWaitingInTask": {},
        },
    ),
    "JobChainEvent": (
        Path,
        {"JobChainStateChanged": {"state": Name}, "JobChainNodeActionChanged": {"nodeId": Name, "action": Name}},
    ),
    "JobEvent": (Path, {"JobStateChanged": {"state": Name}, "JobUnstopped": {}, "JobTaskQueueChanged": {}}),
    "TaskEvent": (TaskKey, {"TaskStarted": {}, "TaskEnded": {"returnCode": WholeNumber}, "TaskClosed": {}}),
    "FileBasedEvent": (
        TypedPath,
        {"FileBasedAdded": {}, "FileBasedReplaced": {}, "FileBasedRemoved": {}, "FileBasedActivated": {}},
    ),
    "SchedulerEvent": (
        None,
        {"SchedulerStateChanged": {"state": Name}, "SchedulerInitiated": {}, "SchedulerClosed": {}},
    ),
    "CustomEvent": (Name, {"VariablesCustomEvent": {"variables": dict[str, str]}}),
    "Logged": (None, {"Logged": {"level": Level, "message": str}}),
}
"""Each family of events: what their keys are, and the fields of each."""

_BETWEEN: Mapping[str, tuple[str, ...]] = {
    "FileBasedAddedOrReplaced": ("FileBasedAdded", "FileBasedReplaced"),
    "JobChainNodeEvent": ("JobChainNodeActionChanged",),
}
"""Supertypes between a family and its events."""

_FAMILY_OF = {name: family for family, (_, events) in FAMILIES.items() for name in events}


def new_event(value: object) -> NewEvent:
    """The core event of an event in JobScheduler's JSON."""
    parsed = _any_event().validate_python(value, by_alias=True, by_name=False)
    fields = parsed.model_dump(exclude={"TYPE", "key"}, exclude_none=True)
    key = getattr(parsed, "key", None)
    name: str = parsed.TYPE
    return NewEvent(
        type=_core_type(name),
        key=task_path(key) if isinstance(key, TaskKey) else key,
        payload=JsonPayload(type="json", data=fields) if fields else None,
    )


def own_json(event: Event) -> dict[str, Any] | None:
    """The event in JobScheduler's JSON, with its EventId; None if somebody else's under our types."""
    stored = event.stored
    name = stored.type[-1]
    fields = {} if stored.payload is None else stored.payload["data"]
    if name not in _FAMILY_OF or stored.type != _core_type(name) or not isinstance(fields, dict):
        return None
    own: dict[str, Any] = {"TYPE": name}
    if stored.key is not None:
        own["key"] = _task_key(stored.key) if stored.type[1] == "TaskEvent" else stored.key
    if not own.keys().isdisjoint(fields) or not _follows({**own, **fields}):
        return None
    return {"eventId": event.event_id, **own, **fields}


def patterns(returned: str) -> tuple[EventType, ...]:
    """The patterns of the event types named in `return=`, separated by commas; a supertype means all its subtypes."""
    return tuple(pattern for name in returned.split(",") for pattern in _patterns(name.strip()))


def task_path(key: TaskKey) -> str:
    """A task is found beside its job."""
    return f"{key.job_path}:{key.task_id}"


def _task_key(path: str) -> dict[str, str]:
    job_path, _, task_id = path.rpartition(":")
    return {"jobPath": job_path, "taskId": task_id}


def _follows(own: dict[str, Any]) -> bool:
    try:
        _any_event().validate_python(own, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


def _patterns(name: str) -> tuple[EventType, ...]:
    if name == "Event":
        return ((NAME, "*"),)
    if name in FAMILIES:
        return ((NAME, name, "*"),)
    names = _BETWEEN.get(name, (name,))
    if names[0] not in _FAMILY_OF:
        known = ", ".join(("Event", *FAMILIES))
        raise BadInput(f"Unrecognized event type: return={name[:80]}; known are {known} and their subtypes")
    return tuple(_core_type(one) for one in names)


def _core_type(name: str) -> EventType:
    family = _FAMILY_OF[name]
    return (NAME, family, name) if family != name else (NAME, name)


@cache
def _any_event() -> TypeAdapter[Any]:
    """All events as models; made when the first one comes, for making them takes a while."""
    models = [_model(name, key, fields) for key, events in FAMILIES.values() for name, fields in events.items()]
    any_of_them: Any = Annotated[Union[tuple(models)], Field(discriminator="TYPE")]  # noqa: UP007  (made from a list)
    return TypeAdapter(any_of_them)


def _model(name: str, key: Any, fields: _Fields) -> type[Model]:
    parts: dict[str, Any] = {"TYPE": (Literal[name], ...)}
    if key is not None:
        parts["key"] = (key, ...)
    for field, kind in fields.items():
        parts[field] = (kind, None if type(None) in getattr(kind, "__args__", ()) else ...)
    return create_model(name, __base__=Model, **parts)
