"""Example messages, each with the request that receives it after the OpenAPI examples have been sent.

Tests send the requests and compare the messages. Only counters and times may differ.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.json_schema import JsonSchema
from chalicelib.http.openapi.example import Example, Values
from chalicelib.http.openapi.outputs import EVENT_STREAM, NDJSON, UNNAMED

_AT = 1_793_790_456_606_000
_TIME, _SPACED_TIME = timestamps.iso(_AT), timestamps.iso_with_space(_AT)
_ORDERS = {"collection": "order"}
_FOLDER = {**_ORDERS, "path": "folder/"}
_ANNA = {"user": "anna"}
_ORG = {"org": "local"}
_PUSH = {**_ORG, "job": "j200"}

_DEPLOYMENT = {
    "id": {"server": 1, "session": 1, "instance": 1},
    "eventId": _AT,
    "position": 1,
    "timestamp": _TIME,
    "type": ["deploy", "finished"],
    "key": "/web",
    "sourceTimestamp": "2026-11-04T11:07:36.000000Z",
    "payload": {"type": "json", "data": {"revision": "4f2a"}},
    "tags": ["service:web", "region:eu"],
}
_STEP = {"eventId": _AT, "TYPE": "OrderStepStarted", "key": "/folder/chain,117", "nodeId": "A", "taskId": "9"}
_CREATED = {
    "eventId": _AT,
    "read": False,
    "observer": "mine",
    "subject": "Created backup on n1 (#4800)",
    "body": "backup #4800 on n1 was created\n",
    "event": {"server": 1, "session": 3, "instance": 2},
}
_EMPTY = {"TYPE": "Empty", "eventId": _AT, "lastEventId": _AT}
_TORN = {"TYPE": "Torn", "eventId": _AT}
_START: Mapping[str, Any] = {"command": "chef-client", "run_timeout": 60, "quorum": 1, "node_count": 1, "user": "anna"}
_SUMMARY = {
    "timestamp": _SPACED_TIME,
    "id": "j200",
    **_START,
    "status": "complete",
    "created_at": _SPACED_TIME,
    "updated_at": _SPACED_TIME,
    "nodes": {"succeeded": ["n1"]},
    "out_of_order": [],
}


@dataclass(frozen=True, slots=True)
class MessageExample:
    """A message by its name, and the request that receives it."""

    name: str
    request: Example
    payload: Any = None
    id: str = ""
    """The id of a server-sent event."""

    def as_document(self) -> JsonSchema:
        """The message as the AsyncAPI document shows it."""
        message: JsonSchema = {"payload": self.payload} if self.payload is not None else {}
        if self.id:
            event = {} if self.payload is None or self.name == UNNAMED else {"event": self.name}
            message["headers"] = {**event, "id": self.id}
        return message


def _poll(
    operation: str, payload: Any, query: Values, path: Mapping[str, str] | None = None, body: Any = None
) -> MessageExample:
    return MessageExample("poll", Example(operation, path or {}, query, body=body), payload)


def _line(operation: str, payload: Any, query: Values, path: Mapping[str, str] | None = None) -> MessageExample:
    return MessageExample("line", Example(operation, path or {}, query, {"Accept": NDJSON}), payload)


def _sse_event(
    operation: str, name: str, payload: Any, query: Values, path: Mapping[str, str] | None = None
) -> MessageExample:
    request = Example(operation, path or {}, {**query, "timeout": "0.1s"}, {"Accept": EVENT_STREAM})
    return MessageExample(name, request, payload, str(_AT))


def _job_feed_event(name: str, **data: Any) -> MessageExample:
    request = Example("job_feed", _PUSH, headers={"Accept": EVENT_STREAM})
    return MessageExample(name, request, {"timestamp": _SPACED_TIME, **data}, f"job-{_AT}")


def _organization_feed_event(name: str, id_: str, last_id: str = "", **data: Any) -> MessageExample:
    headers = {"Accept": EVENT_STREAM, **({"Last-Event-ID": last_id} if last_id else {})}
    request = Example("organization_feed", _ORG, {} if last_id else {"after": "0"}, headers, is_endless=True)
    return MessageExample(name, request, {"timestamp": _SPACED_TIME, **data}, id_)


def _non_empty(element: Any) -> JsonSchema:
    return {"TYPE": "NonEmpty", "eventId": _AT, "eventSnapshots": [element]}


def _core(seq: JsonSchema, position: int, more_follows: bool = False) -> JsonSchema:
    """An EventSeq of core events."""
    return {**seq, "moreFollows": more_follows, "position": position}


_ONE_DEPLOYMENT: Values = {"types": ["deploy/*"], "limit": "1"}
_NO_MATCH: Values = {"types": ["nothing"], "after": "0"}
_TOO_OLD: Values = {"after": "0", "tornOlder": "0.01s"}
_WEB_SERVICE = {"items": [{"tags": ["service:web", "region:eu"]}]}
_STEPS: Values = {"return": "OrderStepStarted"}

EXAMPLES = (
    _poll("get_events", _core(_non_empty(_DEPLOYMENT), 1, more_follows=True), _ONE_DEPLOYMENT),
    _poll("get_events", _core(_EMPTY, 27), _NO_MATCH),
    _poll("get_events", _core(_TORN, 27, more_follows=True), _TOO_OLD),
    _line("get_events", _DEPLOYMENT, _ONE_DEPLOYMENT),
    _line("get_events", _TORN, _TOO_OLD),
    _sse_event("get_events", UNNAMED, _DEPLOYMENT, _ONE_DEPLOYMENT),
    _sse_event("get_events", "Torn", _TORN, _TOO_OLD),
    _sse_event("get_events", "position", None, _NO_MATCH),
    _poll("query_events", _core(_non_empty(_DEPLOYMENT), 27), {}, body=_WEB_SERVICE),
    MessageExample("line", Example("query_events", headers={"Accept": NDJSON}, body=_WEB_SERVICE), _DEPLOYMENT),
    MessageExample(
        UNNAMED,
        Example("query_events", headers={"Accept": EVENT_STREAM}, body={**_WEB_SERVICE, "timeout": "0.1s"}),
        _DEPLOYMENT,
        str(_AT),
    ),
    _poll("jobscheduler_get", _non_empty(_STEP), _STEPS, _ORDERS),
    _line("jobscheduler_get", _STEP, _STEPS, _ORDERS),
    _sse_event("jobscheduler_get", UNNAMED, _STEP, _STEPS, _ORDERS),
    _poll("jobscheduler_get_at_path", _non_empty(_STEP), _STEPS, _FOLDER),
    _line("jobscheduler_get_at_path", _STEP, _STEPS, _FOLDER),
    _sse_event("jobscheduler_get_at_path", UNNAMED, _STEP, _STEPS, _FOLDER),
    _poll("jobscheduler_post", _non_empty(_STEP), _STEPS, _ORDERS, {"path": "/folder/"}),
    _poll("get_inbox", {**_non_empty(_CREATED), "readUpTo": 0}, {"limit": "1", "timeout": "5s"}, _ANNA),
    _line("get_inbox", _CREATED, {"limit": "1"}, _ANNA),
    _sse_event("get_inbox", UNNAMED, _CREATED, {"limit": "1"}, _ANNA),
    _job_feed_event("start", **_START),
    _job_feed_event("quorum_vote", node="n1", status="success"),
    _job_feed_event("quorum_succeeded"),
    _job_feed_event("rehab", node="n1"),
    _job_feed_event("run_start", node="n1"),
    _job_feed_event("run_complete", node="n1", status="success"),
    _job_feed_event("job_complete", status="complete"),
    MessageExample("summary", Example("job_feed", _PUSH, headers={"Accept": EVENT_STREAM}), _SUMMARY, "job-1"),
    _organization_feed_event("start", f"org-{_AT}", job="j200", **_START),
    _organization_feed_event("job_complete", f"org-{_AT}", job="j200", status="complete"),
    _organization_feed_event("start_of_history", "start_id", "org-1"),
)


def examples_of(operation: str, name: str) -> Iterator[MessageExample]:
    """The examples of the message `name` of an operation."""
    return (example for example in EXAMPLES if (example.request.operation, example.name) == (operation, name))
