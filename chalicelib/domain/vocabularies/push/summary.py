"""Summaries of push jobs."""

from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import ObjectSummary, Result, truncate
from chalicelib.domain.vocabularies.push.events import job_key
from chalicelib.domain.vocabularies.push.jobs import has_ended, has_failed_nodes

_ACTIVE_NODE_STATES = ("ready", "running")
"""Nodes in these states have yet to report their result."""


def summarize(ref: ObjectRef, state: State) -> ObjectSummary:
    return ObjectSummary(
        path=ref.path,
        key=job_key(ref.path[1:]),
        state=state["status"],
        label=truncate(state.get("command", "")),
        result=_result(state),
        created_at=_iso(state["created_at"]),
        updated_at=_iso(state["updated_at"]),
        progress=_progress(state),
        author=truncate(state["user"]) if "user" in state else None,
    )


def _result(state: State) -> Result | None:
    """A job is successful if it is complete and no node failed or refused to run."""
    if not has_ended(state):
        return None
    return "success" if state["status"] == "complete" and not has_failed_nodes(state) else "failure"


def _progress(state: State) -> float | None:
    """Ratio of nodes that are done. None if the job is not running, or its nodes are too many to be stored."""
    nodes, expected = state["nodes"], int(state.get("node_count", 0))
    if state["status"] != "running" or nodes is None or not expected:
        return None
    done: int = sum(len(names) for status, names in nodes.items() if status not in _ACTIVE_NODE_STATES)
    return min(done / expected, 1.0)


def _iso(time_with_space: str) -> str:
    return time_with_space.replace(" ", "T")
