"""Tags and query items: `GET /events`, `POST /events/query` and append conditions select the same events."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.http.conftest import build_views
from tests.serving import TIMEOUT_S, Member, Server

SENT: list[tuple[str, str | None, list[str]]] = [
    ("seat/taken", "/seat/1", ["show:1", "seat:1"]),
    ("seat/freed", "/seat/1", ["show:1", "seat:1"]),
    ("seat/taken", "/seat/2", ["show:2"]),
    ("show/ended", None, ["show:1"]),
    ("note", "/seat/2", []),
]
ALL = list(range(len(SENT)))
QUERIES: list[tuple[list[dict[str, list[str]]], list[int]]] = [
    ([], ALL),
    ([{}], ALL),
    ([{"types": ["nothing"]}, {}], ALL),
    ([{"tags": ["show:1"]}], [0, 1, 3]),
    ([{"tags": ["seat:1", "show:1"]}], [0, 1]),
    ([{"tags": ["show:1", "show:2"]}], []),
    ([{"tags": ["show:1"], "types": ["seat/*"]}], [0, 1]),
    ([{"tags": ["show:1"], "keys": ["/seat/2"]}], []),
    ([{"tags": ["show:1"], "keys": ["/seat/1", "/seat/2"], "types": ["seat/freed"]}], [1]),
    ([{"tags": ["show:2"]}, {"types": ["show/ended"]}], [2, 3]),
    ([{"tags": ["show:1"]}, {"tags": ["show:1", "seat:1"]}], [0, 1, 3]),
    ([{"keys": ["/seat/1"], "types": ["seat/taken"]}, {"keys": ["/seat/2"], "types": ["note"]}], [0, 4]),
    ([{"tags": ["nothing"]}, {"keys": ["nothing"]}, {"types": ["nothing"]}], []),
]


def publish_seats(member: Member) -> list[dict[str, Any]]:
    events = [{"type": type_.split("/"), "key": key, "tags": tags} for type_, key, tags in SENT]
    published: list[dict[str, Any]] = member.post({"events": events[:3]}).json()["events"]
    return [*published, *member.post({"events": events[3:]}).json()["events"]]


@pytest.fixture(scope="module")
def seats(small: Server) -> tuple[Member, list[dict[str, Any]]]:
    """Events after enough others for queries to use the views. The views contain the first of them."""
    member = small.organization()
    published = publish_seats(member)
    for _ in range(140):
        member.publish("noise", "noise")
    build_views(small)
    return member, published


@pytest.mark.parametrize(("items", "expected"), QUERIES)
def test_query_returns_events_of_any_item(
    items: list[dict[str, list[str]]], expected: list[int], seats: tuple[Member, list[dict[str, Any]]]
) -> None:
    member, published = seats
    for order in (1, -1):
        query = {"items": items, "limit": order * 1_000}
        seq = member.request("POST", "/events/query", json=query).json()
        received = [event for event in seq.get("eventSnapshots", []) if event["type"] != ["noise"]]
        assert received == [published[i] for i in expected][::order]
        assert seq["moreFollows"] is False


@pytest.mark.parametrize(("items", "expected"), [query for query in QUERIES if len(query[0]) == 1])
def test_feed_with_one_item_equals_query(
    items: list[dict[str, list[str]]], expected: list[int], seats: tuple[Member, list[dict[str, Any]]]
) -> None:
    member, published = seats
    seq = member.get("/events", params=items[0]).json()
    received = [event for event in seq.get("eventSnapshots", []) if event["type"] != ["noise"]]
    assert received == [published[i] for i in expected]


@pytest.mark.parametrize(("items", "expected"), QUERIES)
@pytest.mark.parametrize("known", [0, 1, 3, 5])
def test_condition_fails_at_first_event_of_any_item(
    items: list[dict[str, list[str]]], expected: list[int], known: int, member: Member
) -> None:
    published = publish_seats(member)
    after = published[known - 1]["eventId"] if known else None
    matches = [i for i in expected if i >= known]
    body = {"events": [{"type": ["new"]}], "condition": {"failIfEventsMatch": {"items": items}, "after": after}}
    response = member.post(body)
    assert response.status_code == (409 if matches else 201)
    if matches:
        assert response.json()["eventId"] == published[matches[0]]["eventId"]


def as_event_seq(text: str) -> list[Any]:
    events: list[Any] = json.loads(text)["eventSnapshots"]
    return events


def as_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def as_server_sent(text: str) -> list[Any]:
    return [json.loads(line.removeprefix("data:")) for line in text.splitlines() if line.startswith("data:")]


@pytest.mark.parametrize(
    ("accept", "parse"),
    [
        ("application/json", as_event_seq),
        ("application/x-ndjson", as_lines),
        ("text/event-stream", as_server_sent),
    ],
)
def test_query_answers_in_all_formats_of_the_feed(
    accept: str, parse: Callable[[str], list[Any]], member: Member
) -> None:
    published = publish_seats(member)
    query = {"items": [{"tags": ["show:2"]}, {"types": ["note"]}], "timeout": 0.1}
    response = member.request("POST", "/events/query", json=query, headers={"Accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (200, accept)
    assert parse(response.text) == [published[2], published[4]]


@pytest.mark.parametrize("timeout", ["60s", 60, 59.5])
def test_query_waits_for_first_matching_event(timeout: object, member: Member) -> None:
    query = {"items": [{"tags": ["show:9"]}, {"keys": ["/nothing"]}], "timeout": timeout}
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(member.request, "POST", "/events/query", json=query)
        publish_seats(member)
        (event,) = member.post({"events": [{"type": ["a"], "tags": ["show:9"]}]}).json()["events"]
        assert poll.result(TIMEOUT_S).json()["eventSnapshots"] == [event]


def test_query_continues_after_and_before(member: Member) -> None:
    published = publish_seats(member)
    query = {"items": [{"tags": ["show:1"]}], "after": published[0]["eventId"], "limit": 1}
    seq = member.request("POST", "/events/query", json=query).json()
    assert (seq["eventSnapshots"], seq["moreFollows"]) == ([published[1]], True)
    query = {**query, "before": published[3]["eventId"], "limit": -5}
    seq = member.request("POST", "/events/query", json=query).json()
    assert (seq["eventSnapshots"], seq["moreFollows"]) == ([published[1]], False)


@pytest.mark.parametrize(("groups", "status"), [(["readers"], 200), (["publishers"], 403)])
def test_query_requires_the_rights_of_a_reader(groups: list[str], status: int, member: Member) -> None:
    member.create()
    caller = member.server.member(member.organization, groups=groups)
    assert caller.request("POST", "/events/query", json={}).status_code == status


def test_tags_are_in_no_list_of_objects(seats: tuple[Member, list[dict[str, Any]]]) -> None:
    member, _ = seats
    assert member.get("/objects/%23").status_code == 400
    for path in ("/objects/job", "/objects/order", "/jobscheduler/master/api/order"):
        assert "show:1" not in member.get(path).text
