"""GET /events: the core feed."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.serving import PATIENCE_S, Member

Parameters = list[tuple[str, str | int | float | bool | None]]


@pytest.fixture
def events(member: Member) -> list[dict[str, Any]]:
    """Four events in two sessions: a/b on /1 and a/c on /2; then x on /1 and one of no type on nothing."""
    sent: list[list[tuple[list[str], str | None]]] = [
        [(["a", "b"], "/1"), (["a", "c"], "/2")],
        [(["x"], "/1"), ([], None)],
    ]
    found: list[dict[str, Any]] = []
    for session in sent:
        answer = member.post({"events": [{"type": type_, "key": key} for type_, key in session]})
        found += answer.json()["events"]
    return found


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
def test_the_feed_gives_the_events_that_were_asked_for(
    query: Parameters, expected: list[int], member: Member, events: list[dict[str, Any]]
) -> None:
    answer = member.get("/events", params=httpx.QueryParams(query))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    seq = answer.json()
    assert {**seq, "eventId": None} == {
        "TYPE": "NonEmpty",
        "eventId": None,
        "eventSnapshots": [events[i] for i in expected],
    }
    assert seq["eventId"] >= max(event["eventId"] for event in seq["eventSnapshots"])


@pytest.mark.parametrize(("seen", "expected"), [(0, [1, 2, 3]), (1, [2, 3]), (2, [3])])
def test_the_feed_goes_on_after_any_event(
    seen: int, expected: list[int], member: Member, events: list[dict[str, Any]]
) -> None:
    seq = member.get("/events", params={"after": events[seen]["eventId"]}).json()
    assert seq == {
        "TYPE": "NonEmpty",
        "eventId": events[3]["eventId"],
        "eventSnapshots": [events[i] for i in expected],
    }


@pytest.mark.parametrize("query", [{"types": "y"}, {"types": "y", "limit": "-5"}, {"keys": "/9", "limit": "5"}])
def test_when_nothing_matches_the_answer_is_empty_and_says_how_far_it_looked(
    query: dict[str, str], member: Member, events: list[dict[str, Any]]
) -> None:
    last = events[-1]["eventId"]
    assert member.get("/events", params=query).json() == {"TYPE": "Empty", "eventId": last, "lastEventId": last}


def test_the_feed_of_an_empty_log_is_empty(member: Member) -> None:
    assert member.get("/events").json() == {"TYPE": "Empty", "eventId": 0, "lastEventId": 0}


def test_a_position_in_the_future_is_no_error(member: Member, events: list[dict[str, Any]]) -> None:
    last = events[-1]["eventId"]
    answer = member.get("/events", params={"after": last + 10**9})
    assert (answer.status_code, answer.json()) == (200, {"TYPE": "Empty", "eventId": last, "lastEventId": last})


def test_a_long_poll_ends_at_its_timeout(member: Member) -> None:
    began = time.monotonic()
    seq = member.get("/events", params={"timeout": "0.3s"}).json()
    assert time.monotonic() - began >= 0.3
    assert seq == {"TYPE": "Empty", "eventId": 0, "lastEventId": 0}


def test_a_long_poll_is_answered_by_the_first_event_that_matches(member: Member) -> None:
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(member.get, "/events", params={"timeout": "infinite", "types": "b"})
        member.publish("a")
        (event,) = member.publish("b")
        answer = poll.result(PATIENCE_S)
    assert answer.json() == {"TYPE": "NonEmpty", "eventId": event["eventId"], "eventSnapshots": [event]}


def test_many_long_polls_are_answered_by_one_append(member: Member) -> None:
    polls = 20
    with ThreadPoolExecutor(polls) as pool:
        waiting = [pool.submit(member.get, "/events", params={"timeout": "60s"}) for _ in range(polls)]
        (event,) = member.publish("a")
        answers = [poll.result(PATIENCE_S).json() for poll in waiting]
    assert answers == polls * [{"TYPE": "NonEmpty", "eventId": event["eventId"], "eventSnapshots": [event]}]


def test_a_follower_sees_every_event_once_and_in_order(member: Member) -> None:
    def follow() -> list[str]:
        found: list[str] = []
        after = 0
        while "end" not in found:
            seq = member.get("/events", params={"after": after, "timeout": "60s", "limit": 3}).json()
            found += [event["type"][-1] for event in seq.get("eventSnapshots", [])]
            after = seq["eventId"]
        return found

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        for n in range(20):
            member.publish(f"n/{n}", f"m/{n}")
        member.publish("end")
        assert following.result(PATIENCE_S) == [*(str(n) for n in range(20) for _ in range(2)), "end"]
