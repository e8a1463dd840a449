"""What a list shows of push jobs."""

from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import Brief, Result, short
from chalicelib.domain.vocabularies.push.events import key_of
from chalicelib.domain.vocabularies.push.jobs import is_over

_GOING_ON = ("ready", "running")
"""The states of nodes of which something is still expected, once the job runs."""


def brief_of(ref: ObjectRef, state: State) -> Brief:
    """A push job is called by its command. Its result is its own: what became of single nodes is not looked at."""
    return Brief(
        path=ref.path,
        key=key_of(ref.path[1:]),
        state=state["status"],
        label=short(state.get("command", "")),
        result=_result(state),
        created_at=_iso(state["created_at"]),
        updated_at=_iso(state["updated_at"]),
        progress=_progress(state),
    )


def _result(state: State) -> Result | None:
    if not is_over(state):
        return None
    return "success" if state["status"] == "complete" else "failure"


def _progress(state: State) -> float | None:
    """How many of its nodes are done, while it runs; None if they are too many to be known here."""
    nodes, expected = state["nodes"], int(state.get("node_count", 0))
    if state["status"] != "running" or nodes is None or not expected:
        return None
    done: int = sum(len(names) for status, names in nodes.items() if status not in _GOING_ON)
    return min(done / expected, 1.0)


def _iso(spaced: str) -> str:
    """The time as everybody else writes it."""
    return spaced.replace(" ", "T")
