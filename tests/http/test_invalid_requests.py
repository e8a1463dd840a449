"""Invalid requests return a problem that explains the error, and write nothing."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.http import invalid_appends, invalid_queries
from tests.http.invalid_appends import condition, event
from tests.http.invalid_case import API, FOREIGN, Case
from tests.serving import Member, Server

TABLES = {
    "append": invalid_appends.APPENDS,
    "vocabulary": invalid_appends.VOCABULARIES,
    "query": invalid_queries.QUERIES,
    "unknown": invalid_queries.UNKNOWN,
    "feed": invalid_queries.FEEDS,
    "return": invalid_queries.RETURNS,
    "path": invalid_queries.PATHS,
    "access": invalid_queries.ACCESS,
    "long": invalid_queries.LONG,
}


@pytest.fixture(scope="module")
def foreign(server: Server) -> int:
    """The number of a log that the caller may not read."""
    other = server.organization()
    other.publish("a")
    return other.create()


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{name}: {title}") for name, cases in TABLES.items() for title, case in cases.items()],
)
def test_invalid_request_returns_problem_and_writes_nothing(case: Case, foreign: int, member: Member) -> None:
    member.publish("before")
    before = member.read_log()
    response = send(member, case, foreign)
    content_type = response.headers["content-type"]
    assert (response.status_code, content_type) == (case.status, "application/problem+json"), response.text
    problem = response.json()
    members = {"type", "title", "status", "detail"} | ({"error"} if case.status == 403 else set())
    assert (set(problem), problem["type"], problem["status"]) == (members, "about:blank", case.status)
    assert re.search(case.detail.replace(FOREIGN, str(foreign)), problem["detail"]), problem["detail"]
    assert len(problem["detail"]) < 2_000
    assert member.read_log() == before


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/events/timeseries?tTo=0001-01-01", []),
        ("/events/timeseries?tTo=0001-01-01&order=ascending", []),
        ("/events/timeseries?tFrom=0001-01-01", ["b", "a"]),
        ("/events/timeseries?tTo=9999-12-31T23:59:59.999999Z", ["b", "a"]),
        ("/events/timeseries?tFrom=9999-12-31T23:59:59.999999Z", []),
        ("/events/timeseries?tFrom=9999-12-31T23:59:59.999999Z&order=ascending", []),
        ("/events/timeseries?tFrom=0001-01-01&tTo=9999-12-31&order=ascending", ["a", "b"]),
        ("/events/timeseries?orderBy=sourceTimestamp&tTo=0001-01-01", []),
        ("/events/timeseries?maxResults=99999999999999999999", ["b", "a"]),
        ("/events/server?maxResults=99999999999999999999", ["a", "b"]),
        (f"/events/server?maxResults=1{'0' * 3_000}", ["a", "b"]),
        ("/events?tornOlder=999999999999&heartbeat=999999999999", ["a", "b"]),
        ("/events?tornOlder=infinite&heartbeat=infinite&delay=infinite&timeout=infinite", ["a", "b"]),
        ("/events?limit=1000000", ["a", "b"]),
        ("/events?limit=-1000000", ["b", "a"]),
    ],
)
def test_extreme_values_are_accepted(target: str, expected: list[str], member: Member) -> None:
    member.publish("a")
    member.publish("b")
    response = member.get(target)
    assert response.status_code == 200, response.text
    events = response.json().get("events", response.json().get("eventSnapshots"))
    assert [event["type"] for event in events] == [[type_] for type_ in expected]


@pytest.mark.parametrize("session", ["999999999999999", "0"])
@pytest.mark.parametrize("instance", ["999999999999999", "0"])
def test_distant_ids_are_accepted(session: str, instance: str, member: Member) -> None:
    last = f"{member.create()}.{session}.{instance}"
    member.publish("a")
    for query in ("timeseries", "server"):
        assert member.get(f"/events/{query}", params={"lastEventId": last}).status_code == 200


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda text: ("GET", f"{API}/{text}", None), id="a collection"),
        pytest.param(lambda text: ("GET", f"{API}/event?return={text}", None), id="a type"),
        pytest.param(lambda text: ("GET", f"/events?timeout={text}", None), id="a duration"),
        pytest.param(lambda text: ("GET", f"{API}/order/*{text}", None), id="a path"),
        pytest.param(lambda text: ("POST", "/events/timeseries", {"lastEventId": text * 9}), id="an id"),
        pytest.param(lambda text: ("POST", "/events/timeseries", {"order": text * 9}), id="an order"),
        pytest.param(lambda text: ("POST", "/events/scheduler", {"TYPE": text * 9}), id="an event's type"),
        pytest.param(lambda text: ("POST", "/events/scheduler", {"TYPE": "JobUnstopped", "key": text * 9}), id="a key"),
        pytest.param(
            lambda text: ("POST", "/events/scheduler", {"TYPE": "SchedulerClosed", text * 9: 1}), id="a member"
        ),
        pytest.param(lambda text: ("POST", "/events", event(type=["x?" * 500_000 + text])), id="a subtype"),
        pytest.param(lambda text: ("POST", "/events", event(sourceTimestamp=text * 50)), id="a time"),
        pytest.param(
            lambda text: ("POST", "/events", condition(failIfEventsMatch={"types": ["x?" * 500_000 + text]})),
            id="a pattern",
        ),
        pytest.param(lambda text: ("POST", "/events", {text * 50: 1}), id="a field"),
        pytest.param(lambda text: ("POST", "/events", {f"{n}{text[:1]}": 1 for n in range(100_000)}), id="many fields"),
    ],
)
def test_problem_does_not_repeat_long_input(build: Callable[[str], tuple[str, str, Any]], member: Member) -> None:
    method, target, body = build("x" * 20_000)
    response = member.request(method, target, **({} if body is None else {"json": body}))
    assert (response.status_code, len(response.content) < 4_000) == (400, True), len(response.content)


def test_problem_lists_only_the_first_errors(member: Member) -> None:
    response = member.post({"events": [{}] * 8})
    listed = "; ".join(f"events.{index}.type: missing" for index in range(5))
    assert response.json()["detail"] == f"{listed}; and 3 more"


def test_append_with_duplicate_member_uses_the_last(member: Member) -> None:
    body = b'{"events":[{"type":["a"]}],"events":[]}'
    response = member.request("POST", "/events", content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["events"]) == (200, [])


def send(member: Member, case: Case, foreign: int) -> Any:
    target = case.target.replace(FOREIGN, str(foreign))
    if case.body is None:
        return member.request(case.method or "GET", target, headers=case.headers)
    is_raw = isinstance(case.body, bytes)
    content = case.body if is_raw else json.dumps(case.body).replace(FOREIGN, str(foreign)).encode()
    return member.request("POST", target, content=content, headers={"Content-Type": "application/json", **case.headers})
