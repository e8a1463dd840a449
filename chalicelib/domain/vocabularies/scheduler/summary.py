"""What a list shows of JobScheduler's objects."""

from collections.abc import Callable, Mapping
from functools import partial

from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import Brief, Result, short

UNKNOWN = "unknown"
"""The state of what has not told any."""


def brief_of(ref: ObjectRef, state: State) -> Brief:
    """Orders and tasks are part of their job chain and their job."""
    return _BRIEFS[ref.collection](ref, state)


def _order(ref: ObjectRef, order: State) -> Brief:
    """A suspended order is nothing else, as in the statistics."""
    chain, _, name = ref.path.partition(",")
    node = f" at {order['nodeId']}" if "nodeId" in order else ""
    processing = order["orderProcessingState"]
    return Brief(
        path=ref.path,
        key=ref.path,
        state=order["obstacles"][0]["TYPE"] if order["obstacles"] else processing["TYPE"],
        label=short(f"{name}{node}"),
        created_at=None,
        updated_at=_latest(order.get("startedAt"), order.get("finishedAt"), processing.get("since")),
        parent=chain,
    )


def _task(ref: ObjectRef, task: State) -> Brief:
    result: Result | None = None
    if "returnCode" in task:
        result = "success" if task["returnCode"] == 0 else "failure"
    return Brief(
        path=ref.path,
        key=ref.path,
        state=task["state"],
        label=short(f"task {task['taskId']} of {_name(task['jobPath'])}"),
        result=result,
        created_at=task.get("startedAt"),
        updated_at=_latest(task.get("startedAt"), task.get("endedAt")),
        parent=task["jobPath"],
    )


def _file(ref: ObjectRef, file: State) -> Brief:
    """Its events have its kind before its path."""
    path, _, kind = ref.path.rpartition(":")
    return Brief(ref.path, f"{kind}:{path}", file.get("fileBasedState", UNKNOWN), short(f"{kind} {_name(path)}"))


def _scheduler(ref: ObjectRef, scheduler: State) -> Brief:
    """Its events have no key."""
    started = scheduler.get("startedAt")
    return Brief(ref.path, None, short(scheduler["state"]), "scheduler", created_at=started, updated_at=started)


def _named(changed_at: str, ref: ObjectRef, found: State) -> Brief:
    """A job or a job chain, which may be known by nothing but its file."""
    state = found.get("state", found.get("fileBasedState", UNKNOWN))
    return Brief(ref.path, ref.path, short(state), short(_name(ref.path)), updated_at=found.get(changed_at))


def _latest(*times: str | None) -> str | None:
    return max(filter(None, times), default=None)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


_BRIEFS: Mapping[str, Callable[[ObjectRef, State], Brief]] = {
    "order": _order,
    "jobChain": partial(_named, ""),
    "schedulerJob": partial(_named, "taskQueueChangedAt"),
    "task": _task,
    "fileBased": _file,
    "scheduler": _scheduler,
}
