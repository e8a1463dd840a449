"""Folds JobScheduler's events into overviews of orders, job chains, jobs, tasks, files and the scheduler."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event, EventFields
from chalicelib.domain.objects.ref import ObjectRef, State

COLLECTIONS: Mapping[str, str] = {
    "order": "orders",
    "jobChain": "jobChains",
    "schedulerJob": "jobs",
    "task": "tasks",
    "fileBased": "fileBaseds",
    "scheduler": "schedulers",
}

SCHEDULER_PATH = "/scheduler"
"""The only scheduler of a log. Its events have no key."""

_COLLECTION_OF_FAMILY = {
    "OrderEvent": "order",
    "JobChainEvent": "jobChain",
    "JobEvent": "schedulerJob",
    "TaskEvent": "task",
}
_COLLECTION_OF_FILE = {"Order": "order", "JobChain": "jobChain", "Job": "schedulerJob"}

Fields = Mapping[str, Any]


def affected_objects(fields: EventFields) -> tuple[ObjectRef, ...]:
    """An event about a file also affects the order, job chain or job that the file defines."""
    event_type, key = fields.type, fields.key
    family = event_type[1] if len(event_type) > 1 else ""
    if family == "SchedulerEvent":
        return (ObjectRef("scheduler", SCHEDULER_PATH),)
    if key is None:
        return ()
    if family == "FileBasedEvent":
        kind, _, path = key.partition(":")
        file = ObjectRef("fileBased", f"{path}:{kind}")
        return (file, ObjectRef(_COLLECTION_OF_FILE[kind], path)) if path and kind in _COLLECTION_OF_FILE else (file,)
    return (ObjectRef(_COLLECTION_OF_FAMILY[family], key),) if family in _COLLECTION_OF_FAMILY else ()


def objects_with_key(key: str) -> tuple[ObjectRef, ...]:
    kind, colon, path = key.partition(":")
    if colon and not kind.startswith("/"):
        return (ObjectRef("fileBased", f"{path}:{kind}"),)
    return tuple(ObjectRef(collection, key) for collection in _COLLECTION_OF_FAMILY.values())


def location(ref: ObjectRef) -> str:
    """The path of an order's job chain; the path before the colon of a task or a file."""
    match ref.collection:
        case "order":
            return ref.path.partition(",")[0]
        case "task" | "fileBased":
            return ref.path.rpartition(":")[0]
        case _:
            return ref.path


def folder_path(collection: str, folder: str) -> str | None:
    """The file `Folder:/a` is the folder `/a/`."""
    return f"{folder.removesuffix('/') or '/'}:Folder" if collection == "fileBased" else None


def is_exact(ref: ObjectRef) -> bool:
    """The path of an order contains a comma, the path of a task ends with a number, that of a file contains a colon."""
    match ref.collection:
        case "order":
            return "," in ref.path
        case "task":
            return ref.path.rpartition(":")[2].isdecimal()
        case "fileBased":
            return ":" in ref.path
        case _:
            return True


def is_unique(ref: ObjectRef) -> bool:
    """False for tasks and files, because a path with a colon can also be the location of another one."""
    return ref.collection not in ("task", "fileBased")


def fold(collection: str, state: State | None, event: Event, native: Fields) -> State | None:
    """The object's overview after `event`, None if it does not exist. Events are applied in any order."""
    key, at = event.fields.key or SCHEDULER_PATH, timestamps.iso(event.at_us)
    if event.fields.type[1] == "FileBasedEvent":
        return _fold_file(collection, state, key, native["TYPE"])
    return _FOLDS[collection](state, key, native["TYPE"], native, at)


def full_state(collection: str, events: Iterable[tuple[Event, Fields]]) -> State | None:
    state: State | None = None
    for event, native in events:
        state = fold(collection, state, event, native)
    return state


def _fold_file(collection: str, state: State | None, key: str, name: str) -> State | None:
    if name == "FileBasedRemoved":
        return None
    file_state = "active" if name == "FileBasedActivated" else "loaded"
    path = key if collection == "fileBased" else key.partition(":")[2]
    overview = state or _NEW[collection](path)
    if collection == "order":
        return {**overview, "fileBasedState": file_state, "orderSourceType": "Permanent"}
    return {**overview, "fileBasedState": file_state}


def _new_order(path: str) -> State:
    return {
        "TYPE": "OrderOverview",
        "path": path,
        "jobChainPath": path.partition(",")[0],
        "orderSourceType": "AdHoc",
        "orderProcessingState": {"TYPE": "NotPlanned"},
        "obstacles": [],
    }


_PROCESSING_STATES = {
    "OrderAdded": "NotPlanned",
    "OrderStarted": "WaitingForResource",
    "OrderWaitingInTask": "WaitingInTask",
    "OrderStepStarted": "InTaskProcess",
    "OrderStepEnded": "WaitingForResource",
    "OrderSetBack": "Setback",
    "OrderFinished": "NotPlanned",
}
_OBSTACLES: Mapping[str, list[dict[str, str]]] = {"OrderSuspended": [{"TYPE": "Suspended"}], "OrderResumed": []}
_TIME_FIELDS = {"OrderStarted": "startedAt", "OrderFinished": "finishedAt"}


def _fold_order(state: State | None, key: str, name: str, fields: Fields, at: str) -> State | None:
    if name == "OrderRemoved":
        return None
    order = dict(state or _new_order(key))
    if "nodeId" in fields:
        order["nodeId"] = fields["nodeId"]
    if name in _PROCESSING_STATES:
        order["orderProcessingState"] = {"TYPE": _PROCESSING_STATES[name]}
    if name == "OrderStepStarted":
        order["orderProcessingState"] |= {"taskId": fields["taskId"], "since": at}
    match fields.get("nodeTransition"):
        case {"TYPE": "Error"}:
            order["lastTransition"] = "Error"
        case {}:
            order.pop("lastTransition", None)
    if name in ("OrderAdded", "OrderStarted"):
        order.pop("lastTransition", None)
    if name in _TIME_FIELDS:
        order[_TIME_FIELDS[name]] = at
    if name in _OBSTACLES:
        order["obstacles"] = _OBSTACLES[name]
    return order


def _new_job_chain(path: str) -> State:
    return {"TYPE": "JobChainOverview", "path": path}


def _fold_job_chain(state: State | None, key: str, name: str, fields: Fields, at: str) -> State:
    del at
    chain = state or _new_job_chain(key)
    if name == "JobChainStateChanged":
        return {**chain, "state": fields["state"]}
    return {**chain, "nodes": {**chain.get("nodes", {}), fields["nodeId"]: fields["action"]}}


def _new_job(path: str) -> State:
    return {"TYPE": "JobOverview", "path": path}


def _fold_job(state: State | None, key: str, name: str, fields: Fields, at: str) -> State:
    job = state or _new_job(key)
    match name:
        case "JobStateChanged":
            return {**job, "state": fields["state"]}
        case "JobUnstopped":
            return {**job, "state": "pending"}
        case _:
            return {**job, "taskQueueChangedAt": at}


def _fold_task(state: State | None, key: str, name: str, fields: Fields, at: str) -> State:
    job_path, _, task_id = key.rpartition(":")
    task = state or {"TYPE": "TaskOverview", "taskId": task_id, "jobPath": job_path}
    match name:
        case "TaskStarted":
            return {**task, "state": "running", "startedAt": at}
        case "TaskEnded":
            return {**task, "state": "ended", "returnCode": fields["returnCode"], "endedAt": at}
        case _:
            return {**task, "state": "closed"}


def _fold_scheduler(state: State | None, key: str, name: str, fields: Fields, at: str) -> State:
    del key
    scheduler = state or {"TYPE": "SchedulerOverview"}
    match name:
        case "SchedulerStateChanged":
            return {**scheduler, "state": fields["state"]}
        case "SchedulerInitiated":
            return {**scheduler, "state": "starting", "startedAt": at}
        case _:
            return {**scheduler, "state": "stopped"}


_NEW: Mapping[str, Callable[[str], State]] = {
    "order": _new_order,
    "jobChain": _new_job_chain,
    "schedulerJob": _new_job,
    "fileBased": lambda key: {"TYPE": "FileBasedOverview", "path": key},
}
_FOLDS: Mapping[str, Callable[[State | None, str, str, Fields, str], State | None]] = {
    "order": _fold_order,
    "jobChain": _fold_job_chain,
    "schedulerJob": _fold_job,
    "task": _fold_task,
    "scheduler": _fold_scheduler,
}
