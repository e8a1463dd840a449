"""Whatever happens to objects, and whatever else is rarely answered: all of it is described."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from chalice.app import Response

import app
from chalicelib.domain import vocabularies
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, Parked
from chalicelib.domain.queries.event_seq import Empty, EventSeq, Torn
from chalicelib.domain.vocabularies.scheduler.events import FAMILIES
from chalicelib.http import responses
from chalicelib.http.openapi import document
from tests.http.openapi.openapi_answers import Document, found, problems_with
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
    {"event": "progress", "node": "n1", "id": 999, "type": "t", "state": "of a job that nobody created"},
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


@pytest.fixture(scope="module")
def described() -> Document:
    return document(app.app.routes, "1")


def unlike(described: Document, operation: str, answer: httpx.Response) -> list[str]:
    return problems_with(described, found(described, operation)[0], answer, answer.text)


def test_objects_look_as_described_whatever_happened_to_them(member: Member, described: Document) -> None:
    for vocabulary, events in (("job", JOBS), ("push", PUSHES), ("scheduler", SCHEDULED)):
        answer = member.ask("POST", f"/events/{vocabulary}", json={"events": events})
        assert (answer.status_code, unlike(described, f"post_{vocabulary}_events", answer)) == (201, [])
    for collection in vocabularies.collections():
        answer = member.get(f"/objects/{collection}")
        assert answer.json()["elements"] != [], collection
        assert unlike(described, "get_objects", answer) == [], answer.text
        assert unlike(described, "get_objects", member.get(f"/objects/{collection}?brief=yes")) == []
    for number in (1, 2, 3):
        assert unlike(described, "get_job", member.get(f"/jobs/{number}")) == []
    for number in (5, 6):
        assert unlike(described, "get_jobset", member.get(f"/jobsets/{number}")) == []
    pushes = f"/organizations/{member.organization}/pushy/jobs"
    assert unlike(described, "push_jobs", member.get(pushes)) == []
    for job in ("early", "full", "many"):
        assert unlike(described, "push_job", member.get(f"{pushes}/{job}")) == []


@pytest.mark.parametrize("collection", ["order", "job", "jobChain", "task", "fileBased", "scheduler", "event"])
def test_jobscheduler_answers_as_described(member: Member, described: Document, collection: str) -> None:
    member.ask("POST", "/events/scheduler", json={"events": SCHEDULED})
    member.post({"events": [{"type": ["scheduler", "OrderEvent", "OrderAdded"], "key": "no order"}]})
    returns = ["Event", "JocOrderStatistics", "OrderStatisticsChanged&after=0"] if collection == "order" else ["Event"]
    for query in ["", *(f"?return={name}" for name in returns)]:
        answer = member.get(f"/jobscheduler/master/api/{collection}{query}")
        assert (answer.status_code, unlike(described, "jobscheduler_get", answer)) == (200, []), answer.text


def test_deliveries_that_failed_look_as_described(described: Document) -> None:
    delivery = Delivery("1.7.1/ops", 1, "ops", Id(1, 7, 1), "/job/1", "a@example.org", "again")
    answer = responses.failures([Parked(delivery, 5, "no", 1_478_257_656_606)])
    assert unlike(described, "get_failures", sent(answer)) == []


@pytest.mark.parametrize("seq", [Torn(7), Empty(9 * responses.FAR_US)], ids=lambda seq: type(seq).__name__)
@pytest.mark.parametrize(
    ("answer", "headers"),
    [
        (lambda seq: responses.event_seq(seq).body, responses.JSON),
        (responses.lines, responses.NDJSON),
        (lambda seq: responses.server_sent(seq, 0, is_page=True), responses.SSE),
    ],
    ids=["json", "ndjson", "sse"],
)
def test_a_feed_without_events_looks_as_described(
    described: Document, seq: EventSeq, answer: Callable[[EventSeq], str], headers: responses.Headers
) -> None:
    assert unlike(described, "get_events", sent(Response(answer(seq), headers, 200))) == []


def sent(response: Response) -> httpx.Response:
    """The answer as its client gets it."""
    headers = {name: str(value) for name, value in response.headers.items()}
    return httpx.Response(response.status_code, headers=headers, text=str(response.body))
