"""POST /events: append events."""

import time

import pytest

from chalicelib.domain import timestamps
from chalicelib.domain.log.append import MOST_BYTES, MOST_EVENTS
from tests.serving import Member

NO_CACHE = "no-store"


def test_events_are_numbered_and_answered_as_readers_get_them(member: Member) -> None:
    number = member.create()
    before = time.time_ns() // 1000
    answer = member.post(
        {
            "events": [
                {
                    "type": ["job", "finish", "n1", "backup"],
                    "key": "/job/117",
                    "sourceTimestamp": "2016-11-04T12:07:36.606+01:00",
                    "payload": {"type": "json", "data": {"success": "1"}},
                },
                {"type": [], "payload": {"type": "binary", "name": "core", "data": "MTIz"}},
            ]
        }
    )
    at = answer.json()["eventId"] - 1
    assert (answer.status_code, answer.json()) == (
        201,
        {
            "events": [
                {
                    "id": {"server": number, "session": 1, "instance": 1},
                    "eventId": at,
                    "type": ["job", "finish", "n1", "backup"],
                    "key": "/job/117",
                    "timestamp": timestamps.iso(at),
                    "sourceTimestamp": "2016-11-04T11:07:36.606000Z",
                    "payload": {"type": "json", "data": {"success": "1"}},
                },
                {
                    "id": {"server": number, "session": 1, "instance": 2},
                    "eventId": at + 1,
                    "type": [],
                    "key": None,
                    "timestamp": timestamps.iso(at),
                    "sourceTimestamp": None,
                    "payload": {"type": "binary", "name": "core", "data": "MTIz"},
                },
            ],
            "eventId": at + 1,
        },
    )
    assert before - 1000 <= at <= time.time_ns() // 1000
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == ("application/json", NO_CACHE)
    assert member.stored() == {**answer.json(), "moreFollows": False}


def test_no_events_are_answered_with_200_and_use_no_session(member: Member) -> None:
    answers = [member.post({"events": []}), member.post({"events": []}, **{"Idempotency-Key": "k"})]
    assert [(answer.status_code, answer.json()) for answer in answers] == 2 * [(200, {"events": [], "eventId": 0})]
    (event,) = member.publish("a")
    assert (event["id"]["session"], member.post({"events": []}).json()) == (
        1,
        {"events": [], "eventId": event["eventId"]},
    )


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", "application/x+json"])
def test_json_goes_by_several_names(content_type: str, member: Member) -> None:
    assert member.post({"events": [{"type": ["a"]}]}, **{"Content-Type": content_type}).status_code == 201


def test_a_request_may_have_as_many_events_as_the_limit_says(member: Member) -> None:
    answer = member.post({"events": [{"type": ["a"]}] * MOST_EVENTS})
    assert (answer.status_code, len(answer.json()["events"])) == (201, MOST_EVENTS)


def test_a_request_may_have_as_many_bytes_as_the_limit_says(member: Member) -> None:
    data = "x" * (MOST_BYTES - 100)
    answer = member.post({"events": [{"type": ["a"], "payload": {"type": "json", "data": data}}]})
    assert (answer.status_code, answer.json()["events"][0]["payload"]["data"] == data) == (201, True)


def test_a_repeat_with_the_same_key_gets_the_first_answer(member: Member) -> None:
    body = {"events": [{"type": ["a"]}], "condition": {"failIfEventsMatch": {"types": ["a"]}}}
    first, again = (member.post(body, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert (first.status_code, again.status_code, again.json()) == (201, 200, first.json())
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    assert member.stored() == {**first.json(), "moreFollows": False}


def test_the_same_key_with_another_body_is_422(member: Member) -> None:
    first = member.post({"events": [{"type": ["a"]}]}, **{"Idempotency-Key": "k"})
    other = member.post({"events": [{"type": ["b"]}]}, **{"Idempotency-Key": "k"})
    assert (other.status_code, other.json()) == (
        422,
        {
            "type": "about:blank",
            "title": "Unprocessable Entity",
            "status": 422,
            "detail": "Idempotency-Key 'k' was used for another request; use a new key for a new request",
        },
    )
    assert member.stored() == {**first.json(), "moreFollows": False}


def test_a_condition_that_fails_is_409_and_names_the_event(member: Member) -> None:
    first = member.publish("a", "b")
    answer = member.post({"events": [{"type": ["b"]}], "condition": {"failIfEventsMatch": {"types": ["b"]}}})
    event_id = first[1]["eventId"]
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (
        409,
        "application/problem+json",
        {
            "type": "about:blank",
            "title": "Conflict",
            "status": 409,
            "detail": f"event {event_id} matches the append condition",
            "eventId": event_id,
        },
    )
    assert member.stored()["events"] == first


@pytest.mark.parametrize(
    "condition",
    [
        {"failIfEventsMatch": {"types": ["c/*"]}},
        {"failIfEventsMatch": {"types": [["c"]], "keys": ["/k"]}},
        {"failIfEventsMatch": {"types": []}},
        {"failIfEventsMatch": {"keys": []}},
        None,
    ],
)
def test_a_condition_that_holds_lets_the_events_through(condition: object, member: Member) -> None:
    member.publish("a", "b")
    assert member.post({"events": [{"type": ["b"]}], "condition": condition}).status_code == 201


def test_a_condition_looks_only_at_what_came_after_its_position(member: Member) -> None:
    event_id = member.publish("a", "b")[1]["eventId"]
    matches = {"types": ["b"]}
    statuses = [
        member.post(
            {"events": [{"type": ["c"]}], "condition": {"failIfEventsMatch": matches, "after": after}}
        ).status_code
        for after in (event_id - 1, event_id)
    ]
    assert statuses == [409, 201]


def test_unicode_survives_the_whole_way(member: Member) -> None:
    data = {"ключ": ["漢字", "\u2028", "\x00", "\U0001f600", '"\\/\n']}
    answer = member.post({"events": [{"type": ["ä"], "key": "/ö", "payload": {"type": "json", "data": data}}]})
    (event,) = member.get("/events", params={"types": "ä", "keys": "/ö"}).json()["eventSnapshots"]
    assert event == answer.json()["events"][0]
    assert event["payload"]["data"] == data


@pytest.mark.parametrize("preferred", ["return=minimal", "respond-async, Return=Minimal; wait=10"])
def test_who_prefers_it_gets_no_events_back(member: Member, preferred: str) -> None:
    member.create()
    events = {"events": [{"type": ["a"]}, {"type": ["b"], "payload": {"type": "binary", "name": "", "data": ""}}]}
    answer = member.post(events, **{"Prefer": preferred, "Idempotency-Key": "once"})
    again = member.post(events, **{"Prefer": preferred, "Idempotency-Key": "once"})
    plain = member.post({"events": [{"type": ["c"]}]}, Prefer="return=representation")
    assert (answer.status_code, answer.json()["events"]) == (201, [])
    assert answer.headers["Preference-Applied"] == again.headers["Preference-Applied"] == "return=minimal"
    assert (again.status_code, again.json()) == (200, answer.json())
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Preference-Applied" not in plain.headers
    stored = [(event["type"], event["eventId"]) for event in member.stored()["events"]]
    last = answer.json()["eventId"]
    assert stored == [(["a"], last - 1), (["b"], last), (["c"], plain.json()["eventId"])]


def test_who_publishes_jobs_briefly_is_told_what_was_ignored(member: Member) -> None:
    member.create()
    known, unknown = (
        {"event": name, "node": "n1", "id": number, "type": "x"} for name, number in (("create", 1), ("finish", 2))
    )
    events = {"events": [known, {**unknown, "success": "1", "message": "done"}]}
    answer = member.ask("POST", "/events/job", json=events, headers={"Prefer": "return=minimal"})
    assert (answer.status_code, answer.json()["events"], len(answer.json()["ignored"])) == (201, [], 1)
