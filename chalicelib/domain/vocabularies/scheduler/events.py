"""JobScheduler's events: their type hierarchy and fields, and their conversion to and from core events."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError, create_model

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.model import Model, WholeNumber

NAME = "scheduler"


def _validate_order_key(key: str) -> str:
    chain, _, order = key.partition(",")
    if len(chain) < 2 or not order:
        raise ValueError("the key of an order must have the form /job-chain,order-id")
    return key


Path = Annotated[str, StringConstraints(pattern=r"^/[^/?*|:]+(?:/[^/?*|:]+)*$", max_length=800)]
OrderKey = Annotated[
    str,
    StringConstraints(pattern=r"^/[^/?*|]+(?:/[^/?*|]+)*$", max_length=800),
    AfterValidator(_validate_order_key),
    Field(json_schema_extra={"allOf": [{"pattern": r"^[^,]{2,},[\s\S]"}]}),
]
TypedPath = Annotated[
    str,
    StringConstraints(
        pattern=r"^(?:Folder:/|Order:(?:/[^/?*|,]+)+,[^/?*|]+(?:/[^/?*|]+)*"
        r"|(?:Folder|Job|JobChain|Lock|Monitor|ProcessClass|Schedule):(?:/[^/?*|]+)+)$",
        max_length=800,
    ),
]
"""The kind and the path of a file. Only the root folder has a path that ends with a slash."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
TaskId = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,18}$")]
Level = Annotated[str, StringConstraints(pattern=r"^(?:debug[1-9]|debug|detail|info|warn|warning|error|stderr)$")]


class TaskKey(Model):
    """A task of a job."""

    job_path: Path = Field(alias="jobPath")
    task_id: TaskId = Field(alias="taskId")


class _Success(Model):
    TYPE: Literal["Success"]


class _Error(Model):
    TYPE: Literal["Error"]
    returnCode: WholeNumber  # noqa: N815  (JobScheduler's name)


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
"""Each family of events: the type of their keys, and the fields of each event."""

INTERMEDIATE_TYPES: Mapping[str, tuple[str, ...]] = {
    "FileBasedAddedOrReplaced": ("FileBasedAdded", "FileBasedReplaced"),
    "JobChainNodeEvent": ("JobChainNodeActionChanged",),
}
"""Supertypes between a family and its events."""

RETURNED_EVENT_NAMES = (
    "Event",
    *(name for family, (_, events) in FAMILIES.items() for name in (family, *events)),
    *INTERMEDIATE_TYPES,
)
"""Event types that `return=` may name, supertypes included."""

_FAMILY_OF = {name: family for family, (_, events) in FAMILIES.items() for name in events}


def new_event(value: object) -> NewEvent:
    """Convert JobScheduler's JSON to a core event. Raises `ValidationError`."""
    parsed = event_adapter().validate_python(value, by_alias=True, by_name=False)
    fields = parsed.model_dump(exclude={"TYPE", "key"}, exclude_none=True)
    key = getattr(parsed, "key", None)
    name: str = parsed.TYPE
    return NewEvent(
        type=_core_type(name),
        key=task_path(key) if isinstance(key, TaskKey) else key,
        payload=JsonPayload(type="json", data=fields) if fields else None,
    )


def native_json(event: Event) -> dict[str, Any] | None:
    """The event in JobScheduler's JSON, with its EventId. None if it does not follow the vocabulary."""
    event_type, key, _, payload, _ = event.fields
    name = event_type[-1]
    data = {} if payload is None else payload["data"]
    if name not in _FAMILY_OF or event_type != _core_type(name) or not isinstance(data, dict):
        return None
    native: dict[str, Any] = {"TYPE": name}
    if key is not None:
        native["key"] = _task_key(key) if event_type[1] == "TaskEvent" else key
    if not native.keys().isdisjoint(data) or not _is_valid({**native, **data}):
        return None
    return {"eventId": event.event_id, **native, **data}


def parse_event_types(text: str) -> tuple[EventType, ...]:
    """Patterns for the comma-separated event types of `return=`. A supertype includes all its subtypes."""
    return tuple(pattern for name in text.split(",") for pattern in _patterns(name.strip()))


def task_path(key: TaskKey) -> str:
    return f"{key.job_path}:{key.task_id}"


def _task_key(path: str) -> dict[str, str]:
    job_path, _, task_id = path.rpartition(":")
    return {"jobPath": job_path, "taskId": task_id}


def _is_valid(native: dict[str, Any]) -> bool:
    try:
        event_adapter().validate_python(native, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


def _patterns(name: str) -> tuple[EventType, ...]:
    if name == "Event":
        return ((NAME, "*"),)
    if name in FAMILIES:
        return ((NAME, name, "*"),)
    names = INTERMEDIATE_TYPES.get(name, (name,))
    if names[0] not in _FAMILY_OF:
        supported = ", ".join(("Event", *FAMILIES))
        raise BadInput(f"Unrecognized event type: return={name[:80]}; use {supported} or one of their subtypes")
    return tuple(_core_type(name) for name in names)


def _core_type(name: str) -> EventType:
    family = _FAMILY_OF[name]
    return (NAME, family, name) if family != name else (NAME, name)


@cache
def event_adapter() -> TypeAdapter[Any]:
    """Validates any event. Built on first use, because creating the models takes a while."""
    models = [_create_model(name, key, fields) for key, events in FAMILIES.values() for name, fields in events.items()]
    annotated: Any = Annotated[Union[tuple(models)], Field(discriminator="TYPE")]  # noqa: UP007  (made from a list)
    return TypeAdapter(annotated)


def _create_model(name: str, key_type: Any, fields: _Fields) -> type[Model]:
    definitions: dict[str, Any] = {"TYPE": (Literal[name], ...)}
    if key_type is not None:
        definitions["key"] = (key_type, ...)
    for field, field_type in fields.items():
        is_optional = type(None) in getattr(field_type, "__args__", ())
        definitions[field] = (field_type, None if is_optional else ...)
    return create_model(name, __base__=Model, **definitions)
