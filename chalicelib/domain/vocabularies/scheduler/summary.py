"""Summaries of JobScheduler's objects."""

from collections.abc import Callable, Mapping
from functools import partial

from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import ObjectSummary, Result, truncate

UNKNOWN = "unknown"
"""The state of an object that has not reported any."""


def summarize(ref: ObjectRef, state: State) -> ObjectSummary:
    return _SUMMARIES[ref.collection](ref, state)


def _order(ref: ObjectRef, order: State) -> ObjectSummary:
    """The state of a suspended order is `Suspended`, whatever its processing state, as in the statistics."""
    chain, _, name = ref.path.partition(",")
    node = f" at {order['nodeId']}" if "nodeId" in order else ""
    processing = order["orderProcessingState"]
    return ObjectSummary(
        path=ref.path,
        key=ref.path,
        state=order["obstacles"][0]["TYPE"] if order["obstacles"] else processing["TYPE"],
        label=truncate(f"{name}{node}"),
        result=_order_result(order),
        created_at=None,
        updated_at=_latest(order.get("startedAt"), order.get("finishedAt"), processing.get("since")),
        parent=chain,
        type=order["orderSourceType"],
        node=order.get("nodeId"),
    )


def _order_result(order: State) -> Result | None:
    """None unless the order has finished. It has failed if its last step ended in an error."""
    if "finishedAt" not in order or order["orderProcessingState"]["TYPE"] != "NotPlanned":
        return None
    return "failure" if order.get("lastTransition") == "Error" else "success"


def _task(ref: ObjectRef, task: State) -> ObjectSummary:
    result: Result | None = None
    if "returnCode" in task:
        result = "success" if task["returnCode"] == 0 else "failure"
    return ObjectSummary(
        path=ref.path,
        key=ref.path,
        state=task["state"],
        label=truncate(f"task {task['taskId']} of {_name(task['jobPath'])}"),
        result=result,
        created_at=task.get("startedAt"),
        updated_at=_latest(task.get("startedAt"), task.get("endedAt")),
        parent=task["jobPath"],
    )


def _file(ref: ObjectRef, file: State) -> ObjectSummary:
    """The key of a file's events is its kind, then its path. The object path has them in reverse order."""
    path, _, kind = ref.path.rpartition(":")
    return ObjectSummary(
        ref.path, f"{kind}:{path}", file.get("fileBasedState", UNKNOWN), truncate(f"{kind} {_name(path)}")
    )


def _scheduler(ref: ObjectRef, scheduler: State) -> ObjectSummary:
    """The events of a scheduler have no key."""
    started = scheduler.get("startedAt")
    return ObjectSummary(
        ref.path, None, truncate(scheduler["state"]), "scheduler", created_at=started, updated_at=started
    )


def _job_or_chain(changed_at_field: str, ref: ObjectRef, overview: State) -> ObjectSummary:
    """A job or a job chain. If there are only events about its file, it has no state but that of the file."""
    state = overview.get("state", overview.get("fileBasedState", UNKNOWN))
    return ObjectSummary(
        ref.path, ref.path, truncate(state), truncate(_name(ref.path)), updated_at=overview.get(changed_at_field)
    )


def _latest(*times: str | None) -> str | None:
    return max(filter(None, times), default=None)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


_SUMMARIES: Mapping[str, Callable[[ObjectRef, State], ObjectSummary]] = {
    "order": _order,
    "jobChain": partial(_job_or_chain, ""),
    "schedulerJob": partial(_job_or_chain, "taskQueueChangedAt"),
    "task": _task,
    "fileBased": _file,
    "scheduler": _scheduler,
}
