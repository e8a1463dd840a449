"""The job events that a ping stands for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.pings.ping import DEFAULT_NODE, Action, Output, Ping
from chalicelib.domain.vocabularies.job.events import new_event
from chalicelib.domain.vocabularies.job.job_types import RID

NOTE = ("ping", "log")
"""Beginning of the type of a log ping without an open run."""
CLEAN_TIMEOUT = "clean_timeout"
"""The property of a run with the seconds of silence after which it times out."""
MAX_SILENCE_S = 72 * 3600
"""Limit of a run that a ping has started. A job that only sends pings is usually silent until it ends."""
NO_TEXT = "ping"
"""The log line of a log ping without a body."""


@dataclass(frozen=True, slots=True)
class Run:
    """The run that a ping is about, as its events name it."""

    id: int
    node: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the run's create event that its other events repeat: `jobset`, `params` and `props`."""


def new_run(ping: Ping, number: int) -> Run:
    """The run that the ping begins."""
    props = {} if ping.rid is None else {RID: ping.rid}
    if ping.signal.action is Action.START:
        props[CLEAN_TIMEOUT] = str(MAX_SILENCE_S)
    return Run(number, ping.node or DEFAULT_NODE, {"props": props})


def create_event(ping: Ping) -> NewEvent:
    """The event that creates the run, without its number."""
    fields = _fields(ping, new_run(ping, 0))
    return new_event({"event": "create", **{name: value for name, value in fields.items() if name != "id"}})


def log_events(ping: Ping, run: Run, output: Output) -> Iterator[NewEvent]:
    """One event for each log line."""
    lines = output.lines or ((NO_TEXT,) if ping.signal.action is Action.LOG else ())
    for line in lines:
        yield new_event({"event": "progress", **_fields(ping, run), "log": {"message": line}})


def finish_event(ping: Ping, run: Run, output: Output) -> NewEvent:
    is_success = ping.signal.action is Action.SUCCESS
    message = "" if is_success else output.last_line or _default_message(ping.signal.exit_status)
    return new_event(
        {"event": "finish", **_fields(ping, run), "success": "1" if is_success else "0", "message": message}
    )


def note_event(ping: Ping, output: Output) -> NewEvent:
    """The event of a log ping without an open run. It is about no job."""
    data: dict[str, Any] = {"log": list(output.lines or (NO_TEXT,)), **({} if ping.rid is None else {RID: ping.rid})}
    return NewEvent(
        type=(*NOTE, ping.node or DEFAULT_NODE, ping.name),
        key=f"/ping/{ping.name}",
        payload=JsonPayload(type="json", data=data),
    )


def _fields(ping: Ping, run: Run) -> dict[str, Any]:
    return {**run.fields, "node": run.node, "id": run.id, "type": ping.name}


def _default_message(exit_status: int | None) -> str:
    return "failed" if exit_status is None else f"exit status {exit_status}"
