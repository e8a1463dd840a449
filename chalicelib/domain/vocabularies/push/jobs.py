"""Folds the events of a push job into its state, which is the job as its resource describes it.

Events may arrive in any order. Those out of order are listed in the state, and no event after the end changes the job.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import to_json

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import State
from chalicelib.domain.vocabularies.push.events import PUSH_JOB

COLLECTIONS: Mapping[str, str] = {PUSH_JOB: "jobs"}

MAX_NODES_BYTES = 1_000
"""A stored state with more nodes than this omits them. `full_state` has them."""
MAX_OUT_OF_ORDER = 5
"""Maximum number of out-of-order events in a stored state."""
MAX_OUT_OF_ORDER_FULL = 100
"""Maximum number of out-of-order events in a full state."""

Fields = Mapping[str, Any]

_COPIED_FIELDS = ("command", "run_timeout", "user", "quorum", "node_count", "job_user", "dir", "env", "file_specified")
_NODE_STATE_AFTER_VOTE = {
    "success": "ready",
    "failure": "nacked",
    "down": "unavailable",
    "voting_timeout": "unavailable",
    "lost_availibility": "unavailable",
}
_NODE_STATE_AFTER_RUN = {
    "success": "succeeded",
    "failure": "failed",
    "crashed": "crashed",
    "run_nacked": "failed",
    "run_nacked_while_running": "failed",
}
_NODE_STATE_CHANGES_AT_END = {
    "quorum_failed": {"ready": "was_ready"},
    "timed_out": {"ready": "timed_out", "running": "timed_out"},
    "crashed": {"ready": "crashed", "running": "crashed"},
    "aborted": {"ready": "aborted", "running": "aborted"},
    "complete": {},
}
"""For each result of a job, how the states of its nodes change."""
_FAILED_NODE_STATES = frozenset({"nacked", "failed", "crashed", "timed_out", "aborted"})
_RESULTS_WITHOUT_RUN_START = ("crashed", "run_nacked", "client_died_while_running")


def fold(collection: str, state: State | None, event: Event, native: Fields) -> State:
    """The stored state of the job after `event`."""
    del collection
    job = _Job(native["job"], state)
    job.apply(event, native, MAX_OUT_OF_ORDER)
    folded = job.state()
    if folded["nodes"] is not None and len(to_json(folded["nodes"])) <= MAX_NODES_BYTES:
        return folded
    return {**folded, "nodes": None, "has_failed_nodes": job.has_failed_nodes}


def full_state(collection: str, events: Iterable[tuple[Event, Fields]]) -> State | None:
    """The job with all its nodes."""
    del collection
    job: _Job | None = None
    for event, native in events:
        job = job or _Job(native["job"], None)
        job.apply(event, native, MAX_OUT_OF_ORDER_FULL)
    return None if job is None else job.state()


def has_ended(state: State) -> bool:
    return state["status"] in _NODE_STATE_CHANGES_AT_END


def is_full_state(state: State) -> bool:
    return state["nodes"] is not None


def has_failed_nodes(state: State) -> bool:
    """Whether a node refused to run the command, or failed to run it."""
    if state["nodes"] is None:
        return bool(state.get("has_failed_nodes"))
    return not _FAILED_NODE_STATES.isdisjoint(state["nodes"])


class _Job:
    """A job while its events are being folded."""

    def __init__(self, job_id: str, state: State | None) -> None:
        self._id = job_id
        self._state: dict[str, Any] = dict(state) if state else {"status": "new"}
        self._out_of_order: list[State] = list(self._state.get("out_of_order", ()))
        nodes = self._state.get("nodes", {})
        self._nodes: dict[str, str] | None = (
            None if nodes is None else {name: status for status in nodes for name in nodes[status]}
        )
        """The state of each node. None if the stored state omits them."""
        self.has_failed_nodes = state is not None and has_failed_nodes(state)

    def apply(self, event: Event, native: Fields, max_out_of_order: int) -> None:
        reason = next(self._violations(native), None)
        if reason and len(self._out_of_order) < max_out_of_order:
            node = {"node": native["node"]} if "node" in native else {}
            self._out_of_order.append(
                {"event": native["event"], **node, "id": f"job-{event.event_id}", "reason": reason}
            )
        if has_ended(self._state):
            return
        at = timestamps.iso_with_space(event.event_id)
        self._state.setdefault("created_at", at)
        self._state["updated_at"] = at
        self._change_state(native)

    def state(self) -> State:
        """The job's resource. It has a `timestamp` because the feed sends it as a summary event."""
        state = self._state
        copied = {name: state[name] for name in _COPIED_FIELDS if name in state}
        nodes_by_status: dict[str, list[str]] = {}
        for node, status in (self._nodes or {}).items():
            nodes_by_status.setdefault(status, []).append(node)
        return {
            "timestamp": state["updated_at"],
            "id": self._id,
            **copied,
            "status": state["status"],
            **({"capture_output": True} if state.get("capture_output") else {}),
            "created_at": state["created_at"],
            "updated_at": state["updated_at"],
            "nodes": None if self._nodes is None else nodes_by_status,
            "out_of_order": self._out_of_order,
        }

    def _node_state(self, native: Fields) -> str | None:
        """The state of the event's node. None if it is not known."""
        return self._nodes.get(native["node"]) if self._nodes is not None else None

    def _count_nodes(self, *statuses: str) -> int:
        return sum(status in statuses for status in (self._nodes or {}).values())

    def _quorum(self) -> int:
        """How many nodes of a started job must be ready. A start published as a core event may not say it: all."""
        quorum: int = self._state["quorum" if "quorum" in self._state else "node_count"]
        return quorum

    def _violations(self, native: Fields) -> Iterator[str]:
        """Reasons why the event is out of order, the most important one first."""
        status, name, has_started = self._state["status"], native["event"], "command" in self._state
        if has_ended(self._state):
            yield f"the job is over: {status}"
        if has_started and name == "start":
            yield "the job has started before"
        if not has_started and name != "start":
            yield "the job has not started"
        if name in ("quorum_vote", "quorum_succeeded") and status == "running":
            yield "the vote is over"
        if name in ("run_start", "run_complete") and status != "running":
            yield "quorum_succeeded has not been received"
        if name == "job_complete":
            yield from self._violations_at_end(native["status"])
        elif self._nodes is not None:
            yield from self._violations_of_node(native, self._nodes.get(native.get("node", "")))

    def _violations_at_end(self, result: str) -> Iterator[str]:
        has_run, busy = self._state["status"] == "running", self._count_nodes("ready", "running")
        if result == "quorum_failed" and has_run:
            yield "the quorum has succeeded"
        if result in ("complete", "timed_out") and not has_run:
            yield "quorum_succeeded has not been received"
        if result == "complete" and busy:
            yield f"{busy} nodes have not completed"

    def _violations_of_node(self, native: Fields, node_state: str | None) -> Iterator[str]:
        match native["event"]:
            case "quorum_vote" if node_state and native["status"] in ("success", "failure", "voting_timeout"):
                yield "the node has voted before"
            case "quorum_succeeded" if self._count_nodes("ready") < (quorum := self._quorum()):
                yield f"{self._count_nodes('ready')} nodes are ready, not {quorum}"
            case "run_start" if node_state != "ready":
                yield f"the node is {node_state or 'not ready'}"
            case "run_complete" if node_state in (None, "ready") and native["status"] not in _RESULTS_WITHOUT_RUN_START:
                yield "the node has not started to run"
            case "run_complete" if (
                node_state not in (None, "ready", "running") and native["status"] in _NODE_STATE_AFTER_RUN
            ):
                yield f"the node is {node_state}"

    def _change_state(self, native: Fields) -> None:
        state = self._state
        match native["event"]:
            case "start" if "command" not in state:
                state |= {field: native[field] for field in _COPIED_FIELDS if field in native}
                state["capture_output"] = native.get("capture", False)
                self._set_status("voting", "new")
            case "quorum_vote":
                self._set_status("voting", "new")
                node_state = self._node_state(native) or "unavailable"
                self._set_node_state(native, _NODE_STATE_AFTER_VOTE.get(native["status"], node_state))
            case "quorum_succeeded":
                self._set_status("running", "new", "voting")
            case "run_start":
                self._set_status("running", "new", "voting")
                self._set_node_state(native, "running")
            case "run_complete":
                self._set_status("running", "new", "voting")
                node = self._node_state(native)
                unknown_result = "crashed" if node in (None, "ready", "running") else node
                self._set_node_state(native, _NODE_STATE_AFTER_RUN.get(native["status"], unknown_result))
            case "rehab" if state["status"] != "running" and self._node_state(native) in (None, "ready"):
                self._set_node_state(native, "unavailable")
            case "job_complete":
                state["status"] = native["status"]
                changes = _NODE_STATE_CHANGES_AT_END[native["status"]]
                if self._nodes is not None:
                    self._nodes = {node: changes.get(status, status) for node, status in self._nodes.items()}

    def _set_status(self, status: str, *previous: str) -> None:
        """Change the status if it is one of `previous`."""
        if self._state["status"] in previous:
            self._state["status"] = status

    def _set_node_state(self, native: Fields, status: str) -> None:
        self.has_failed_nodes |= status in _FAILED_NODE_STATES
        if self._nodes is not None:
            self._nodes[native["node"]] = status
