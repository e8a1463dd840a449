"""Examples: messages, and the requests that bring them once those of the API's own examples have been sent.

Tests send the requests, and get just these messages: only numbers that count and times are others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.http.openapi.example import Example, Values
from chalicelib.http.openapi.named_schemas import Schema
from chalicelib.http.openapi.outputs import EVENT_STREAM, NDJSON, UNNAMED

_AT = 1_793_790_456_606_000
_TIME, _SPACED = timestamps.iso(_AT), timestamps.spaced(_AT)
_ORDERS = {"collection": "order"}
_FOLDER = {**_ORDERS, "path": "folder/"}
_ANNA = {"user": "anna"}
_ORG = {"org": "local"}
_PUSH = {**_ORG, "job": "j200"}

_DEPLOYED = {
    "id": {"server": 1, "session": 1, "instance": 1},
    "eventId": _AT,
    "timestamp": _TIME,
    "type": ["deploy", "finished"],
    "key": "/web",
    "sourceTimestamp": "2026-11-04T11:07:36.000000Z",
    "payload": {"type": "json", "data": {"revision": "4f2a"}},
}
_STEP = {"eventId": _AT, "TYPE": "OrderStepStarted", "key": "/folder/chain,117", "nodeId": "A", "taskId": "9"}
_CREATED = {
    "eventId": _AT,
    "observer": "mine",
    "subject": "Job created",
    "body": "backup #4800 on n1 was created\n",
    "event": {"server": 1, "session": 3, "instance": 2},
}
_EMPTY = {"TYPE": "Empty", "eventId": _AT, "lastEventId": _AT}
_TORN = {"TYPE": "Torn", "eventId": _AT}
_START: Mapping[str, Any] = {"command": "chef-client", "run_timeout": 60, "quorum": 1, "node_count": 1, "user": "anna"}
_SUMMARY = {
    "timestamp": _SPACED,
    "id": "j200",
    **_START,
    "status": "complete",
    "created_at": _SPACED,
    "updated_at": _SPACED,
    "nodes": {"succeeded": ["n1"]},
    "out_of_order": [],
}


@dataclass(frozen=True, slots=True)
class Heard:
    """A message by its name, and the request that brings it."""

    name: str
    request: Example
    payload: Any = None
    id: str = ""
    """Of a server-sent event."""

    @property
    def shown(self) -> Schema:
        """The message as the document shows it."""
        found: Schema = {"payload": self.payload} if self.payload is not None else {}
        if self.id:
            named = {} if self.payload is None or self.name == UNNAMED else {"event": self.name}
            found["headers"] = {**named, "id": self.id}
        return found


def _polled(operation: str, payload: Any, query: Values, path: Mapping[str, str] | None = None) -> Heard:
    body = {"path": "/folder/"} if operation.endswith("_post") else None
    return Heard("poll", Example(operation, path or {}, query, body=body), payload)


def _line(operation: str, payload: Any, query: Values, path: Mapping[str, str] | None = None) -> Heard:
    return Heard("line", Example(operation, path or {}, query, {"Accept": NDJSON}), payload)


def _sent(operation: str, name: str, payload: Any, query: Values, path: Mapping[str, str] | None = None) -> Heard:
    given = Example(operation, path or {}, {**query, "timeout": "0.1s"}, {"Accept": EVENT_STREAM})
    return Heard(name, given, payload, str(_AT))


def _of_push_job(name: str, **data: Any) -> Heard:
    given = Example("job_feed", _PUSH, headers={"Accept": EVENT_STREAM})
    return Heard(name, given, {"timestamp": _SPACED, **data}, f"job-{_AT}")


def _of_organization(name: str, id_: str, last_id: str = "", **data: Any) -> Heard:
    headers = {"Accept": EVENT_STREAM, **({"Last-Event-ID": last_id} if last_id else {})}
    given = Example("organization_feed", _ORG, {} if last_id else {"after": "0"}, headers, is_endless=True)
    return Heard(name, given, {"timestamp": _SPACED, **data}, id_)


def _non_empty(element: Any) -> Schema:
    return {"TYPE": "NonEmpty", "eventId": _AT, "eventSnapshots": [element]}


_FIRST: Values = {"types": ["deploy/*"], "limit": "1"}
_NOTHING: Values = {"types": ["nothing"], "after": "0"}
_TOO_OLD: Values = {"after": "0", "tornOlder": "0.01s"}
_STEPS: Values = {"return": "OrderStepStarted"}

HEARD = (
    _polled("get_events", _non_empty(_DEPLOYED), _FIRST),
    _polled("get_events", _EMPTY, _NOTHING),
    _polled("get_events", _TORN, _TOO_OLD),
    _line("get_events", _DEPLOYED, _FIRST),
    _line("get_events", _TORN, _TOO_OLD),
    _sent("get_events", UNNAMED, _DEPLOYED, _FIRST),
    _sent("get_events", "Torn", _TORN, _TOO_OLD),
    _sent("get_events", "position", None, _NOTHING),
    _polled("jobscheduler_get", _non_empty(_STEP), _STEPS, _ORDERS),
    _line("jobscheduler_get", _STEP, _STEPS, _ORDERS),
    _sent("jobscheduler_get", UNNAMED, _STEP, _STEPS, _ORDERS),
    _polled("jobscheduler_get_at_path", _non_empty(_STEP), _STEPS, _FOLDER),
    _line("jobscheduler_get_at_path", _STEP, _STEPS, _FOLDER),
    _sent("jobscheduler_get_at_path", UNNAMED, _STEP, _STEPS, _FOLDER),
    _polled("jobscheduler_post", _non_empty(_STEP), _STEPS, _ORDERS),
    _polled("get_inbox", _non_empty(_CREATED), {"limit": "1", "timeout": "5s"}, _ANNA),
    _line("get_inbox", _CREATED, {"limit": "1"}, _ANNA),
    _sent("get_inbox", UNNAMED, _CREATED, {"limit": "1"}, _ANNA),
    _of_push_job("start", **_START),
    _of_push_job("quorum_vote", node="n1", status="success"),
    _of_push_job("quorum_succeeded"),
    _of_push_job("rehab", node="n1"),
    _of_push_job("run_start", node="n1"),
    _of_push_job("run_complete", node="n1", status="success"),
    _of_push_job("job_complete", status="complete"),
    Heard("summary", Example("job_feed", _PUSH, headers={"Accept": EVENT_STREAM}), _SUMMARY, "job-1"),
    _of_organization("start", f"org-{_AT}", job="j200", **_START),
    _of_organization("job_complete", f"org-{_AT}", job="j200", status="complete"),
    _of_organization("start_of_history", "start_id", "org-1"),
)


def of(operation: str, name: str) -> Iterator[Heard]:
    """The examples of a message of an operation."""
    return (heard for heard in HEARD if (heard.request.operation, heard.name) == (operation, name))
