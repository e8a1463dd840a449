"""POST /events: append events."""

import time

import httpx
import pytest

from chalicelib.domain import timestamps
from chalicelib.domain.log.append import MAX_BYTES, MAX_EVENTS
from tests.serving import Member

NO_CACHE = "no-store"


def test_append_returns_numbered_events(member: Member) -> None:
    number = member.create()
    before = time.time_ns() // 1000
    response = member.post(
        {
            "events": [
                {
                    "type": ["job", "finish", "n1", "backup"],
                    "key": "/job/117",
                    "sourceTimestamp": "2016-11-04T12:07:36.606+01:00",
                    "payload": {"type": "json", "data": {"success": "1"}},
                },
                {"type": [], "payload": {"type": "binary", "name": "core", "data": "MTIz"}, "tags": ["b", "a", "b"]},
            ]
        }
    )
    at = response.json()["eventId"] - 1
    assert (response.status_code, response.json()) == (
        201,
        {
            "events": [
                {
                    "id": {"server": number, "session": 1, "instance": 1},
                    "eventId": at,
                    "position": 1,
                    "type": ["job", "finish", "n1", "backup"],
                    "key": "/job/117",
                    "timestamp": timestamps.iso(at),
                    "sourceTimestamp": "2016-11-04T11:07:36.606000Z",
                    "payload": {"type": "json", "data": {"success": "1"}},
                    "tags": [],
                },
                {
                    "id": {"server": number, "session": 1, "instance": 2},
                    "eventId": at + 1,
                    "position": 2,
                    "type": [],
                    "key": None,
                    "timestamp": timestamps.iso(at),
                    "sourceTimestamp": None,
                    "payload": {"type": "binary", "name": "core", "data": "MTIz"},
                    "tags": ["b", "a"],
                },
            ],
            "position": 2,
            "eventId": at + 1,
        },
    )
    assert before - 1000 <= at <= time.time_ns() // 1000
    assert (response.headers["content-type"], response.headers["cache-control"]) == ("application/json", NO_CACHE)
    assert response.headers["x-content-type-options"] == "nosniff"
    assert member.read_log()["events"] == response.json()["events"]


def test_append_without_events_writes_nothing(member: Member) -> None:
    responses = [member.post({"events": []}), member.post({"events": []}, **{"Idempotency-Key": "k"})]
    assert [(response.status_code, response.json()) for response in responses] == 2 * [
        (200, {"events": [], "eventId": 0})
    ]
    (event,) = member.publish("a")
    assert (event["id"]["session"], member.post({"events": []}).json()) == (
        1,
        {"events": [], "eventId": event["eventId"]},
    )


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", "application/x+json"])
def test_json_content_types_are_accepted(content_type: str, member: Member) -> None:
    assert member.post({"events": [{"type": ["a"]}]}, **{"Content-Type": content_type}).status_code == 201


def test_append_at_event_limit_is_accepted(member: Member) -> None:
    response = member.post({"events": [{"type": ["a"]}] * MAX_EVENTS})
    assert (response.status_code, len(response.json()["events"])) == (201, MAX_EVENTS)


def test_append_at_byte_limit_is_accepted(member: Member) -> None:
    data = "x" * (MAX_BYTES - 100)
    response = member.post({"events": [{"type": ["a"], "payload": {"type": "json", "data": data}}]})
    assert (response.status_code, response.json()["events"][0]["payload"]["data"] == data) == (201, True)


def test_repeated_idempotency_key_returns_first_result(member: Member) -> None:
    body = {"events": [{"type": ["a"]}], "condition": {"failIfEventsMatch": {"types": ["a"]}}}
    first, again = (member.post(body, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert (first.status_code, again.status_code, again.json()) == (201, 200, first.json())
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    assert member.read_log()["events"] == first.json()["events"]


def test_idempotency_key_with_other_body_returns_422(member: Member) -> None:
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
    assert member.read_log()["events"] == first.json()["events"]


def test_failed_condition_returns_409_with_event_id(member: Member) -> None:
    first = member.publish("a", "b")
    response = member.post({"events": [{"type": ["b"]}], "condition": {"failIfEventsMatch": {"types": ["b"]}}})
    event_id = first[1]["eventId"]
    assert (response.status_code, response.headers["content-type"], response.json()) == (
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
    assert member.read_log()["events"] == first


def test_condition_after_position_is_checked_from_there(member: Member) -> None:
    member.publish("a", "b", "c")

    def append_after(position: int) -> httpx.Response:
        condition = {"failIfEventsMatch": {"types": ["b"]}, "afterPosition": position}
        return member.post({"events": [{"type": ["d"]}], "condition": condition})

    statuses = [append_after(position).status_code for position in (1, 2, 3, 99)]
    assert statuses == [409, 201, 201, 400]


@pytest.mark.parametrize(
    "condition",
    [
        {"failIfEventsMatch": {"types": ["c/*"]}},
        {"failIfEventsMatch": {"types": [["c"]], "keys": ["/k"]}},
        {"failIfEventsMatch": {"types": ["b"], "tags": ["t"]}, "after": None},
        {"failIfEventsMatch": {"items": [{"types": ["c/*"]}, {"types": ["a"], "keys": ["/k"]}]}},
        None,
    ],
)
def test_append_with_fulfilled_condition_is_written(condition: object, member: Member) -> None:
    member.publish("a", "b")
    assert member.post({"events": [{"type": ["b"]}], "condition": condition}).status_code == 201


def test_condition_ignores_events_before_its_position(member: Member) -> None:
    event_id = member.publish("a", "b")[1]["eventId"]
    matches = {"types": ["b"]}
    statuses = [
        member.post(
            {"events": [{"type": ["c"]}], "condition": {"failIfEventsMatch": matches, "after": after}}
        ).status_code
        for after in (event_id - 1, event_id)
    ]
    assert statuses == [409, 201]


def test_unicode_is_stored_unchanged(member: Member) -> None:
    data = {"ключ": ["漢字", "\u2028", "\x00", "\U0001f600", '"\\/\n']}
    response = member.post({"events": [{"type": ["ä"], "key": "/ö", "payload": {"type": "json", "data": data}}]})
    (event,) = member.get("/events", params={"types": "ä", "keys": "/ö"}).json()["eventSnapshots"]
    assert event == response.json()["events"][0]
    assert event["payload"]["data"] == data


@pytest.mark.parametrize("preferred", ["return=minimal", "respond-async, Return=Minimal; wait=10"])
def test_prefer_return_minimal_omits_events(member: Member, preferred: str) -> None:
    member.create()
    events = {"events": [{"type": ["a"]}, {"type": ["b"], "payload": {"type": "binary", "name": "", "data": ""}}]}
    response = member.post(events, **{"Prefer": preferred, "Idempotency-Key": "once"})
    again = member.post(events, **{"Prefer": preferred, "Idempotency-Key": "once"})
    plain = member.post({"events": [{"type": ["c"]}]}, Prefer="return=representation")
    assert (response.status_code, response.json()["events"]) == (201, [])
    assert response.headers["Preference-Applied"] == again.headers["Preference-Applied"] == "return=minimal"
    assert (again.status_code, again.json()) == (200, response.json())
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Preference-Applied" not in plain.headers
    stored = [(event["type"], event["eventId"]) for event in member.read_log()["events"]]
    last = response.json()["eventId"]
    assert stored == [(["a"], last - 1), (["b"], last), (["c"], plain.json()["eventId"])]


def test_minimal_job_append_returns_ignored_events(member: Member) -> None:
    member.create()
    created, not_created = (
        {"event": name, "node": "n1", "id": number, "type": "x"} for name, number in (("create", 1), ("finish", 2))
    )
    events = {"events": [created, {**not_created, "success": "1", "message": "done"}]}
    response = member.request("POST", "/events/job", json=events, headers={"Prefer": "return=minimal"})
    assert (response.status_code, response.json()["events"], len(response.json()["ignored"])) == (201, [], 1)
