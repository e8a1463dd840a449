"""GET /events: the core feed."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.serving import TIMEOUT_S, Member

Parameters = list[tuple[str, str | int | float | bool | None]]


@pytest.fixture
def events(member: Member) -> list[dict[str, Any]]:
    """Two commits: a/b with key /1 and a/c with key /2, then x with key /1 and an event without type and key."""
    sent: list[list[tuple[list[str], str | None]]] = [
        [(["a", "b"], "/1"), (["a", "c"], "/2")],
        [(["x"], "/1"), ([], None)],
    ]
    published: list[dict[str, Any]] = []
    for session in sent:
        response = member.post({"events": [{"type": type_, "key": key} for type_, key in session]})
        published += response.json()["events"]
    return published


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ([], [0, 1, 2, 3]),
        ([("types", "*")], [0, 1, 2, 3]),
        ([("types", "a/*")], [0, 1]),
        ([("types", "a/?")], [0, 1]),
        ([("types", "?")], [2]),
        ([("types", "")], [3]),
        ([("types", "a/b"), ("types", "x")], [0, 2]),
        ([("keys", "/1")], [0, 2]),
        ([("keys", "/1"), ("keys", "/2")], [0, 1, 2]),
        ([("types", "a/*"), ("keys", "/1")], [0]),
        ([("limit", "1")], [0]),
        ([("limit", "3")], [0, 1, 2]),
        ([("limit", "-1")], [3]),
        ([("limit", "-3")], [3, 2, 1]),
        ([("limit", "-1"), ("types", "a/*")], [1]),
        ([("timeout", "60s")], [0, 1, 2, 3]),
    ],
)
def test_feed_returns_matching_events(
    query: Parameters, expected: list[int], member: Member, events: list[dict[str, Any]]
) -> None:
    response = member.get("/events", params=httpx.QueryParams(query))
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    seq = response.json()
    assert {**seq, "eventId": None, "moreFollows": None, "position": None} == {
        "TYPE": "NonEmpty",
        "eventId": None,
        "moreFollows": None,
        "position": None,
        "eventSnapshots": [events[i] for i in expected],
    }
    assert seq["eventId"] >= max(event["eventId"] for event in seq["eventSnapshots"])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, False),
        ({"limit": 3}, True),
        ({"limit": 4}, False),
        ({"types": "a/*"}, False),
        ({"types": "a/*", "limit": 1}, True),
        ({"types": "y"}, False),
        ({"limit": -3}, True),
        ({"limit": -4}, False),
        ({"limit": -9}, False),
        ({"types": "a/*", "limit": -1}, True),
        ({"types": "a/*", "limit": -2}, False),
    ],
)
def test_more_follows_if_limit_cuts_result(
    query: dict[str, Any], expected: bool, member: Member, events: list[dict[str, Any]]
) -> None:
    assert len(events) == 4
    assert member.get("/events", params=query).json()["moreFollows"] is expected


@pytest.mark.parametrize("query", [{}, {"types": "a/*"}, {"keys": "/1"}, {"tags": "t"}, {"after": True}])
@pytest.mark.parametrize("limit", [-1, -2, -3])
def test_newest_first_continues_before_last_event(query: dict[str, Any], limit: int, member: Member) -> None:
    sent = [{"type": ["a", str(n)], "key": f"/{n % 2}", "tags": ["t"] if n % 3 else []} for n in range(8)]
    published = [event for n in range(0, 8, 2) for event in member.post({"events": sent[n : n + 2]}).json()["events"]]
    query = {**query, "after": published[2]["eventId"]} if "after" in query else query
    expected = member.get("/events", params=query).json()["eventSnapshots"][::-1]
    received: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    more_follows = True
    while more_follows:
        seq = member.get("/events", params={**query, **before, "limit": limit}).json()
        page = seq.get("eventSnapshots", [])
        assert 0 < len(page) <= -limit or not seq["moreFollows"]
        received += page
        more_follows, before = seq["moreFollows"], {"before": received[-1]["eventId"]}
    assert received == expected


def test_newest_first_reaches_all_large_events(member: Member) -> None:
    data = {"type": "json", "data": "x" * 300_000}
    sent = [member.post({"events": [{"type": ["a"], "payload": data}]}).json()["eventId"] for _ in range(20)]
    first = member.get("/events", params={"limit": -100}).json()
    received = [event["eventId"] for event in first["eventSnapshots"]]
    assert (first["moreFollows"], len(received) < 20) == (True, True)
    rest = member.get("/events", params={"limit": -100, "before": received[-1]}).json()
    assert [*received, *(event["eventId"] for event in rest["eventSnapshots"])] == sent[::-1]
    assert rest["moreFollows"] is False


@pytest.mark.parametrize(("before", "expected"), [(0, []), (1, [1, 0]), (2, [2, 1, 0]), (3, [3, 2, 1, 0])])
def test_newest_first_before_any_position(
    before: int, expected: list[int], member: Member, events: list[dict[str, Any]]
) -> None:
    position = {0: 0, 1: events[2]["eventId"], 2: events[3]["eventId"], 3: 2**53 - 1}[before]
    seq = member.get("/events", params={"limit": -10, "before": position}).json()
    assert seq.get("eventSnapshots", []) == [events[i] for i in expected]
    assert seq["eventId"] == (events[3]["eventId"] if before == 3 else max(position - 1, 0))


@pytest.mark.parametrize(("seen", "expected"), [(0, [1, 2, 3]), (1, [2, 3]), (2, [3])])
def test_feed_continues_after_any_event(
    seen: int, expected: list[int], member: Member, events: list[dict[str, Any]]
) -> None:
    seq = member.get("/events", params={"after": events[seen]["eventId"]}).json()
    assert seq == {
        "TYPE": "NonEmpty",
        "eventId": events[3]["eventId"],
        "position": 4,
        "moreFollows": False,
        "eventSnapshots": [events[i] for i in expected],
    }


@pytest.mark.parametrize("query", [{"types": "y"}, {"types": "y", "limit": "-5"}, {"keys": "/9", "limit": "5"}])
def test_feed_without_match_is_empty_with_position(
    query: dict[str, str], member: Member, events: list[dict[str, Any]]
) -> None:
    last = events[-1]["eventId"]
    assert member.get("/events", params=query).json() == {
        "TYPE": "Empty",
        "eventId": last,
        "lastEventId": last,
        "moreFollows": False,
        "position": 4,
    }


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_feed_page_has_position_of_its_end(limit: int, member: Member, events: list[dict[str, Any]]) -> None:
    seq = member.get("/events", params={"limit": limit}).json()
    assert (seq["position"], seq["eventId"]) == (limit, events[limit - 1]["eventId"])
    assert [event["position"] for event in events] == [1, 2, 3, 4]


@pytest.mark.parametrize("position", range(5))
def test_feed_continues_after_position(position: int, member: Member, events: list[dict[str, Any]]) -> None:
    seq = member.get("/events", params={"afterPosition": position}).json()
    assert seq.get("eventSnapshots", []) == events[position:]


def test_feed_after_position_beyond_end_is_400(member: Member, events: list[dict[str, Any]]) -> None:
    response = member.get("/events", params={"afterPosition": len(events) + 1})
    detail = "afterPosition=5 is beyond the end of the log: the last position is 4"
    assert (response.status_code, response.json()["detail"]) == (400, detail)


def test_feed_of_empty_log_is_empty(member: Member) -> None:
    assert member.get("/events").json() == {
        "TYPE": "Empty",
        "eventId": 0,
        "lastEventId": 0,
        "moreFollows": False,
        "position": 0,
    }


def test_feed_after_future_position_is_empty(member: Member, events: list[dict[str, Any]]) -> None:
    last = events[-1]["eventId"]
    response = member.get("/events", params={"after": last + 10**9})
    assert (response.status_code, response.json()) == (
        200,
        {"TYPE": "Empty", "eventId": last, "lastEventId": last, "moreFollows": False, "position": 4},
    )


def test_long_poll_ends_at_timeout(member: Member) -> None:
    began = time.monotonic()
    seq = member.get("/events", params={"timeout": "0.3s"}).json()
    assert time.monotonic() - began >= 0.3
    assert seq == {"TYPE": "Empty", "eventId": 0, "lastEventId": 0, "moreFollows": False, "position": 0}


def test_long_poll_returns_first_matching_event(member: Member) -> None:
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(member.get, "/events", params={"timeout": "infinite", "types": "b"})
        member.publish("a")
        (event,) = member.publish("b")
        response = poll.result(TIMEOUT_S)
    assert response.json() == {
        "TYPE": "NonEmpty",
        "eventId": event["eventId"],
        "position": event["position"],
        "moreFollows": False,
        "eventSnapshots": [event],
    }


def test_one_append_ends_many_long_polls(member: Member) -> None:
    polls = 20
    with ThreadPoolExecutor(polls) as pool:
        waiting = [pool.submit(member.get, "/events", params={"timeout": "60s"}) for _ in range(polls)]
        (event,) = member.publish("a")
        results = [poll.result(TIMEOUT_S).json() for poll in waiting]
    assert results == polls * [
        {
            "TYPE": "NonEmpty",
            "eventId": event["eventId"],
            "moreFollows": False,
            "position": event["position"],
            "eventSnapshots": [event],
        }
    ]


def test_follower_receives_each_event_once_in_order(member: Member) -> None:
    def follow() -> list[str]:
        received: list[str] = []
        after = 0
        while "end" not in received:
            seq = member.get("/events", params={"after": after, "timeout": "60s", "limit": 3}).json()
            received += [event["type"][-1] for event in seq.get("eventSnapshots", [])]
            after = seq["eventId"]
        return received

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        for n in range(20):
            member.publish(f"n/{n}", f"m/{n}")
        member.publish("end")
        assert following.result(TIMEOUT_S) == [*(str(n) for n in range(20) for _ in range(2)), "end"]
