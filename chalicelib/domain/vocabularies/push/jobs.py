"""What the events of a push job fold into: the job as its own resource describes it.

Facts are taken as they come. What came out of order is reported on the job, and nothing after its end changes it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import to_json

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import State
from chalicelib.domain.vocabularies.push.events import PUSH_JOB

COLLECTIONS: Mapping[str, str] = {PUSH_JOB: "jobs"}

MOST_NODES_BYTES = 1_000
"""A stored state names its nodes up to here; those of a larger job are found by reading its events."""
MOST_REPORTED = 5
MOST_REPORTED_WHOLE = 100

Fields = Mapping[str, Any]

_COPIED = ("command", "run_timeout", "user", "quorum", "node_count", "job_user", "dir", "env", "file_specified")
_VOTED = {
    "success": "ready",
    "failure": "nacked",
    "down": "unavailable",
    "voting_timeout": "unavailable",
    "lost_availibility": "unavailable",
}
_RAN = {
    "success": "succeeded",
    "failure": "failed",
    "crashed": "crashed",
    "run_nacked": "failed",
    "run_nacked_while_running": "failed",
}
_ENDED = {
    "quorum_failed": {"ready": "was_ready"},
    "timed_out": {"ready": "timed_out", "running": "timed_out"},
    "crashed": {"ready": "crashed", "running": "crashed"},
    "aborted": {"ready": "aborted", "running": "aborted"},
    "complete": {},
}
"""What becomes of nodes when the job ends like this."""
_WITHOUT_RUN_START = ("crashed", "run_nacked", "client_died_while_running")


def fold(collection: str, state: State | None, event: Event, own: Fields) -> State:
    """The job after `event`, as it is stored."""
    del collection
    job = _Job(own["job"], state)
    job.take(event, own, MOST_REPORTED)
    folded = job.resource()
    return {**folded, "nodes": None} if len(to_json(folded["nodes"])) > MOST_NODES_BYTES else folded


def whole(collection: str, events: Iterable[tuple[Event, Fields]]) -> State | None:
    """The job with all its nodes, from all its events."""
    del collection
    job: _Job | None = None
    for event, own in events:
        job = job or _Job(own["job"], None)
        job.take(event, own, MOST_REPORTED_WHOLE)
    return None if job is None else job.resource()


def is_over(state: State) -> bool:
    """Tell whether the job has ended."""
    return state["status"] in _ENDED


def is_whole(state: State) -> bool:
    """Tell whether the state names its nodes."""
    return state["nodes"] is not None


class _Job:
    """A job while its events are being folded."""

    def __init__(self, job_id: str, state: State | None) -> None:
        self._id = job_id
        self._state: dict[str, Any] = dict(state) if state else {"status": "new"}
        self._reported: list[State] = list(self._state.get("out_of_order", ()))
        nodes = self._state.get("nodes", {})
        self._nodes: dict[str, str] | None = None if nodes is None else {n: s for s in nodes for n in nodes[s]}
        """The state of each node; None if they are too many to be known here."""

    def take(self, event: Event, own: Fields, most_reported: int) -> None:
        """Fold one event."""
        reason = next(self._objections(own), None)
        if reason and len(self._reported) < most_reported:
            node = {"node": own["node"]} if "node" in own else {}
            self._reported.append({"event": own["event"], **node, "id": f"job-{event.event_id}", "reason": reason})
        if is_over(self._state):
            return
        at = timestamps.spaced(event.event_id)
        self._state.setdefault("created_at", at)
        self._state["updated_at"] = at
        self._apply(own)

    def resource(self) -> State:
        """The job as its resource shows it; `timestamp` is there because its summary is an event too."""
        state = self._state
        optional = {name: state[name] for name in _COPIED if name in state}
        by_status: dict[str, list[str]] = {}
        for node, status in (self._nodes or {}).items():
            by_status.setdefault(status, []).append(node)
        return {
            "timestamp": state["updated_at"],
            "id": self._id,
            **optional,
            "status": state["status"],
            **({"capture_output": True} if state.get("capture_output") else {}),
            "created_at": state["created_at"],
            "updated_at": state["updated_at"],
            "nodes": None if self._nodes is None else by_status,
            "out_of_order": self._reported,
        }

    def _node(self, own: Fields) -> str | None:
        """What is known of the event's node; None: nothing."""
        return self._nodes.get(own["node"]) if self._nodes is not None else None

    def _with(self, *statuses: str) -> int:
        """How many nodes are in one of these states."""
        return sum(status in statuses for status in (self._nodes or {}).values())

    def _objections(self, own: Fields) -> Iterator[str]:
        """Why the event should not have come now, the weightiest reason first."""
        status, name, has_started = self._state["status"], own["event"], "command" in self._state
        if is_over(self._state):
            yield f"the job is over: {status}"
        if has_started and name == "start":
            yield "the job has started before"
        if not has_started and name != "start":
            yield "the job has not started"
        if name in ("quorum_vote", "quorum_succeeded") and status == "running":
            yield "the vote is over"
        if name in ("run_start", "run_complete") and status != "running":
            yield "quorum_succeeded has not come"
        if name == "job_complete":
            yield from self._objections_to_end(own["status"])
        elif self._nodes is not None:
            yield from self._objections_for_nodes(own, self._nodes.get(own.get("node", "")))

    def _objections_to_end(self, result: str) -> Iterator[str]:
        has_run, busy = self._state["status"] == "running", self._with("ready", "running")
        if result == "quorum_failed" and has_run:
            yield "the quorum has succeeded"
        if result in ("complete", "timed_out") and not has_run:
            yield "quorum_succeeded has not come"
        if result == "complete" and busy:
            yield f"{busy} nodes have not completed"

    def _objections_for_nodes(self, own: Fields, node: str | None) -> Iterator[str]:
        match own["event"]:
            case "quorum_vote" if node and own["status"] in ("success", "failure", "voting_timeout"):
                yield "the node has voted before"
            case "quorum_succeeded" if self._with("ready") < (quorum := self._state.get("quorum", 0)):
                yield f"{self._with('ready')} nodes are ready, not {quorum}"
            case "run_start" if node != "ready":
                yield f"the node is {node or 'not ready'}"
            case "run_complete" if node in (None, "ready") and own["status"] not in _WITHOUT_RUN_START:
                yield "the node has not started to run"
            case "run_complete" if node not in (None, "ready", "running") and own["status"] in _RAN:
                yield f"the node is {node}"

    def _apply(self, own: Fields) -> None:
        state, name = self._state, own["event"]
        match name:
            case "start" if "command" not in state:
                state |= {field: own[field] for field in _COPIED if field in own}
                state["capture_output"] = own.get("capture", False)
                self._becomes("voting", "new")
            case "quorum_vote":
                self._becomes("voting", "new")
                self._set(own, _VOTED.get(own["status"], self._node(own) or "unavailable"))
            case "quorum_succeeded":
                self._becomes("running", "new", "voting")
            case "run_start":
                self._becomes("running", "new", "voting")
                self._set(own, "running")
            case "run_complete":
                self._becomes("running", "new", "voting")
                node = self._node(own)
                self._set(own, _RAN.get(own["status"], "crashed" if node in (None, "ready", "running") else node))
            case "rehab" if state["status"] != "running" and self._node(own) in (None, "ready"):
                self._set(own, "unavailable")
            case "job_complete":
                state["status"] = own["status"]
                ends = _ENDED[own["status"]]
                if self._nodes is not None:
                    self._nodes = {node: ends.get(status, status) for node, status in self._nodes.items()}

    def _becomes(self, status: str, *from_: str) -> None:
        if self._state["status"] in from_:
            self._state["status"] = status

    def _set(self, own: Fields, status: str) -> None:
        if self._nodes is not None:
            self._nodes[own["node"]] = status
