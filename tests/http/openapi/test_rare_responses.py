"""Responses that the examples do not produce also match the OpenAPI document."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from chalice.app import Response

from chalicelib.domain import vocabularies
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, Parked
from chalicelib.domain.queries.event_seq import Empty, EventSeq, Torn
from chalicelib.domain.vocabularies.scheduler.events import FAMILIES
from chalicelib.http import responses
from tests.http.openapi.response_checks import Document, deviations, find_operation
from tests.serving import Member

LARGE = "x" * 2_000
JOB = {"node": "n1", "id": 1, "type": "t", "jobset": 5}
DATA = {"text": "shown"}
JOBS: list[dict[str, Any]] = [
    {"event": "createJobSet", "node": "n", "id": 5, "jobs": [{"node": "n1", "type": "t"}, {"node": "n2", "type": "u"}]},
    {"event": "create", **JOB},
    {"event": "progress", **JOB, "state": "run", "progress": "0.5", "data": DATA, "log": {"message": "m"}},
    {"event": "redirect", "node": "n1", "id": 1, "redirect": "n2", "jobset": 5},
    {"event": "progressJobSet", "node": "n", "id": 5, "state": "s", "progress": "1/2", "data": DATA},
    {"event": "finish", **JOB, "success": "0", "message": "no", "data": DATA},
    {"event": "create", "node": "n1", "id": 2, "type": "t", "params": {"large": LARGE}, "props": {"large": LARGE}},
    {"event": "progress", "node": "n1", "id": 2, "type": "t", "log": {"message": LARGE}, "state": LARGE},
    {"event": "clean", "node": "n1", "id": 2, "type": "t"},
    {"event": "create", "node": "n1", "id": 3, "type": "t", "jobset": 6, "params": {"large": LARGE}},
    {"event": "finish", "node": "n1", "id": 3, "type": "t", "jobset": 6, "success": "1", "message": "m"},
    {"event": "cleanJobSet", "node": "n", "id": 5, "jobs": [{"node": "n", "type": "t", "state": "s"}]},
    {"event": "progress", "node": "n1", "id": 999, "type": "t", "state": "of an unknown job"},
]
START = {"event": "start", "command": "c", "run_timeout": 1, "node_count": 2, "user": "u"}
PUSHES: list[dict[str, Any]] = [
    {"event": "run_start", "job": "early", "node": "n"},
    {**START, "job": "full", "job_user": "j", "dir": "/", "env": {"A": "b"}, "file_specified": True, "capture": True},
    *({"event": "quorum_vote", "job": "full", "node": f"n{vote}", "status": vote} for vote in ("success", "failure")),
    {"event": "rehab", "job": "full", "node": "nx"},
    {"event": "job_complete", "job": "full", "status": "aborted"},
    {**START, "job": "many"},
    *({"event": "quorum_vote", "job": "many", "node": f"{LARGE[:150]}{n}", "status": "success"} for n in range(20)),
]
KEYS = {
    "OrderEvent": "/c,1",
    "JobChainEvent": "/c",
    "JobEvent": "/j",
    "TaskEvent": {"jobPath": "/j", "taskId": "1"},
    "FileBasedEvent": "Order:/c,2",
    "CustomEvent": "k",
}
FIELDS = {
    "nodeId": "A",
    "fromNodeId": "B",
    "taskId": "1",
    "nodeTransition": {"TYPE": "Error", "returnCode": 1},
    "state": "s",
    "action": "stop",
    "returnCode": 0,
    "variables": {"a": "b"},
    "level": "info",
    "message": "m",
}
SCHEDULED = [
    {
        "TYPE": name,
        **({"key": KEYS[family]} if family in KEYS else {}),
        **{field: FIELDS[field] for field in fields},
    }
    for family, (_, events) in FAMILIES.items()
    for name, fields in events.items()
    if not name.endswith("Removed")
]


def mismatches(document: Document, operation: str, response: httpx.Response) -> list[str]:
    return deviations(document, find_operation(document, operation)[0], response, response.text)


def test_objects_with_all_kinds_of_events_match_schema(member: Member, openapi_document: Document) -> None:
    for vocabulary, events in (("job", JOBS), ("push", PUSHES), ("scheduler", SCHEDULED)):
        response = member.request("POST", f"/events/{vocabulary}", json={"events": events})
        assert (response.status_code, mismatches(openapi_document, f"post_{vocabulary}_events", response)) == (
            201,
            [],
        )
    for collection in vocabularies.collections():
        response = member.get(f"/objects/{collection}")
        assert response.json()["elements"] != [], collection
        assert mismatches(openapi_document, "get_objects", response) == [], response.text
        assert mismatches(openapi_document, "get_objects", member.get(f"/objects/{collection}?brief=yes")) == []
    for number in (1, 2, 3):
        assert mismatches(openapi_document, "get_job", member.get(f"/jobs/{number}")) == []
    for number in (5, 6):
        assert mismatches(openapi_document, "get_jobset", member.get(f"/jobsets/{number}")) == []
    pushes = f"/organizations/{member.organization}/pushy/jobs"
    assert mismatches(openapi_document, "push_jobs", member.get(pushes)) == []
    for job in ("early", "full", "many"):
        assert mismatches(openapi_document, "push_job", member.get(f"{pushes}/{job}")) == []


@pytest.mark.parametrize("collection", ["order", "job", "jobChain", "task", "fileBased", "scheduler", "event"])
def test_jobscheduler_responses_match_schema(member: Member, openapi_document: Document, collection: str) -> None:
    member.request("POST", "/events/scheduler", json={"events": SCHEDULED})
    member.post({"events": [{"type": ["scheduler", "OrderEvent", "OrderAdded"], "key": "no order"}]})
    returns = ["Event", "JocOrderStatistics", "OrderStatisticsChanged&after=0"] if collection == "order" else ["Event"]
    for query in ["", *(f"?return={name}" for name in returns)]:
        response = member.get(f"/jobscheduler/master/api/{collection}{query}")
        assert (response.status_code, mismatches(openapi_document, "jobscheduler_get", response)) == (
            200,
            [],
        ), response.text


def test_failed_deliveries_match_schema(openapi_document: Document) -> None:
    delivery = Delivery("1.7.1/ops", 1, "ops", Id(1, 7, 1), "/job/1", "a@example.org", "again")
    response = responses.failed_deliveries([Parked(delivery, 5, "no", 1_478_257_656_606)])
    assert mismatches(openapi_document, "get_failures", as_received(response)) == []


@pytest.mark.parametrize(
    "seq", [Torn(7), Empty(9 * responses.POSITION_INTERVAL_US)], ids=lambda seq: type(seq).__name__
)
@pytest.mark.parametrize(
    ("render", "headers"),
    [
        (lambda seq: responses.event_seq(seq).body, responses.JSON),
        (responses.ndjson_lines, responses.NDJSON),
        (lambda seq: responses.sse_text(seq, 0, is_page=True), responses.SSE),
    ],
    ids=["json", "ndjson", "sse"],
)
def test_feed_without_events_matches_schema(
    openapi_document: Document, seq: EventSeq, render: Callable[[EventSeq], str], headers: responses.Headers
) -> None:
    assert mismatches(openapi_document, "get_events", as_received(Response(render(seq), headers, 200))) == []


def as_received(response: Response) -> httpx.Response:
    headers = {name: str(value) for name, value in response.headers.items()}
    return httpx.Response(response.status_code, headers=headers, text=str(response.body))
