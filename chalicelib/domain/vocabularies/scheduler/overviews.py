"""What JobScheduler's events fold into: overviews of orders, job chains, jobs, tasks, files and the scheduler."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event, Stored
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
"""The one scheduler of a log; its events have no key."""

_COLLECTION_OF_FAMILY = {
    "OrderEvent": "order",
    "JobChainEvent": "jobChain",
    "JobEvent": "schedulerJob",
    "TaskEvent": "task",
}
_COLLECTION_OF_FILE = {"Order": "order", "JobChain": "jobChain", "Job": "schedulerJob"}

Fields = Mapping[str, Any]


def objects_of(stored: Stored) -> tuple[ObjectRef, ...]:
    """The objects whose state the event may change; a file's event also its order, job chain or job."""
    event_type, key = stored.type, stored.key
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


def refs_of_key(key: str) -> tuple[ObjectRef, ...]:
    """The objects that together hold all events with this key."""
    kind, colon, path = key.partition(":")
    if colon and not kind.startswith("/"):
        return (ObjectRef("fileBased", f"{path}:{kind}"),)
    return tuple(ObjectRef(collection, key) for collection in _COLLECTION_OF_FAMILY.values())


def canonical(collection: str, path: str) -> str:
    """Paths are written in one way only."""
    del collection
    return path


def aliases(ref: ObjectRef) -> tuple[str, ...]:
    """The paths by which the object is found: an order by its job chain's too, a task by its job's."""
    match ref.collection:
        case "order":
            return (ref.path, ref.path.partition(",")[0])
        case "task" | "fileBased":
            return (ref.path, ref.path.rpartition(":")[0])
        case _:
            return (ref.path,)


def is_exact(ref: ObjectRef) -> bool:
    """Tell whether the path is written like that of one object: an order's has a comma, a task's ends in a number."""
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
    """Tell whether no other object can be found by the path: tasks and files have names with colons in other names."""
    return ref.collection not in ("task", "fileBased")


def fold(collection: str, state: State | None, event: Event, own: Fields) -> State | None:
    """The object's overview after `event`; None while it does not exist. Facts out of order are taken as they come."""
    key, at = event.stored.key or SCHEDULER_PATH, timestamps.iso(event.at)
    if event.stored.type[1] == "FileBasedEvent":
        return _folded_file(collection, state, key, own["TYPE"])
    return _FOLDS[collection](state, key, own["TYPE"], own, at)


def is_whole(state: State) -> bool:
    """An overview is all there is."""
    del state
    return True


def whole(collection: str, events: Iterable[tuple[Event, Fields]]) -> State | None:
    """The overview after all events."""
    state: State | None = None
    for event, own in events:
        state = fold(collection, state, event, own)
    return state


def _folded_file(collection: str, state: State | None, key: str, name: str) -> State | None:
    if name == "FileBasedRemoved":
        return None
    file_state = "active" if name == "FileBasedActivated" else "loaded"
    path = key if collection == "fileBased" else key.partition(":")[2]
    found = state or _NEW[collection](path)
    if collection == "order":
        return {**found, "fileBasedState": file_state, "orderSourceType": "Permanent"}
    return {**found, "fileBasedState": file_state}


def _new_order(path: str) -> State:
    return {
        "TYPE": "OrderOverview",
        "path": path,
        "jobChainPath": path.partition(",")[0],
        "orderSourceType": "AdHoc",
        "orderProcessingState": {"TYPE": "NotPlanned"},
        "obstacles": [],
    }


_PROCESSING = {
    "OrderAdded": "NotPlanned",
    "OrderStarted": "WaitingForResource",
    "OrderWaitingInTask": "WaitingInTask",
    "OrderStepStarted": "InTaskProcess",
    "OrderStepEnded": "WaitingForResource",
    "OrderSetBack": "Setback",
    "OrderFinished": "NotPlanned",
}
_OBSTACLES: Mapping[str, list[dict[str, str]]] = {"OrderSuspended": [{"TYPE": "Suspended"}], "OrderResumed": []}
_TIMES = {"OrderStarted": "startedAt", "OrderFinished": "finishedAt"}


def _folded_order(state: State | None, key: str, name: str, fields: Fields, at: str) -> State | None:
    if name == "OrderRemoved":
        return None
    order = dict(state or _new_order(key))
    if "nodeId" in fields:
        order["nodeId"] = fields["nodeId"]
    if name in _PROCESSING:
        order["orderProcessingState"] = {"TYPE": _PROCESSING[name]}
    if name == "OrderStepStarted":
        order["orderProcessingState"] |= {"taskId": fields["taskId"], "since": at}
    if name in _TIMES:
        order[_TIMES[name]] = at
    if name in _OBSTACLES:
        order["obstacles"] = _OBSTACLES[name]
    return order


def _new_job_chain(path: str) -> State:
    return {"TYPE": "JobChainOverview", "path": path}


def _folded_job_chain(state: State | None, key: str, name: str, fields: Fields, at: str) -> State:
    del at
    chain = state or _new_job_chain(key)
    if name == "JobChainStateChanged":
        return {**chain, "state": fields["state"]}
    return {**chain, "nodes": {**chain.get("nodes", {}), fields["nodeId"]: fields["action"]}}


def _new_job(path: str) -> State:
    return {"TYPE": "JobOverview", "path": path}


def _folded_job(state: State | None, key: str, name: str, fields: Fields, at: str) -> State:
    job = state or _new_job(key)
    match name:
        case "JobStateChanged":
            return {**job, "state": fields["state"]}
        case "JobUnstopped":
            return {**job, "state": "pending"}
        case _:
            return {**job, "taskQueueChangedAt": at}


def _folded_task(state: State | None, key: str, name: str, fields: Fields, at: str) -> State:
    job_path, _, task_id = key.rpartition(":")
    task = state or {"TYPE": "TaskOverview", "taskId": task_id, "jobPath": job_path}
    match name:
        case "TaskStarted":
            return {**task, "state": "running", "startedAt": at}
        case "TaskEnded":
            return {**task, "state": "ended", "returnCode": fields["returnCode"], "endedAt": at}
        case _:
            return {**task, "state": "closed"}


def _folded_scheduler(state: State | None, key: str, name: str, fields: Fields, at: str) -> State:
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
    "order": _folded_order,
    "jobChain": _folded_job_chain,
    "schedulerJob": _folded_job,
    "task": _folded_task,
    "scheduler": _folded_scheduler,
}
