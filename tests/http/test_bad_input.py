"""Bad input gets a clear refusal that names the culprit, and nothing is written."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.serving import Member

DEEP = 100_000


@dataclass
class Case:
    """A request, the status it gets, and what the refusal says."""

    detail: str
    body: object = None
    """For POST /events: JSON, or bytes to send as they are."""
    query: str | None = None
    """For GET /events."""
    server_query: object = None
    """For POST /events/server."""
    status: int = 400
    headers: dict[str, str] = field(default_factory=dict)


def event(**members: Any) -> dict[str, Any]:
    """A body with one event."""
    return {"events": [{"type": ["a"], **members}]}


def raw(data: bytes) -> bytes:
    """A body with one event whose payload is this JSON."""
    return b'{"events":[{"type":["a"],"payload":{"type":"json","data":' + data + b"}}]}"


def condition(**members: Any) -> dict[str, Any]:
    """A body with a condition."""
    return {"events": [{"type": ["a"]}], "condition": members}


CASES = {
    "a question mark in a subtype": Case(r"events\.0\.type\.1: .*\?", event(type=["a", "b?"])),
    "a star in a subtype": Case(r"events\.0\.type\.0: .*\*", event(type=["*"])),
    "a slash in a subtype": Case(r"events\.0\.type\.0: .*/", event(type=["a/b"])),
    "an empty subtype": Case(r"events\.0\.type\.1: ", event(type=["a", ""])),
    "a type that is text": Case(r"events\.0\.type: ", event(type="a/b")),
    "a type that is null": Case(r"events\.0\.type: ", event(type=None)),
    "a type too long": Case(r"a type may have at most 900 bytes", event(type=["x" * 901])),
    "a subtype that is a number": Case(r"events\.0\.type\.0: ", event(type=[1])),
    "no type": Case(r"events\.0\.type: missing", {"events": [{"key": "k"}]}),
    "the second event is bad": Case(r"^events\.1\.type: missing$", {"events": [{"type": ["a"]}, {}]}),
    "an unknown field": Case(r"^colour: unknown field$", {"events": [], "colour": "red"}),
    "an unknown field of an event": Case(r"^events\.0\.colour: unknown field$", event(colour="red")),
    "an event with an id": Case(r"^events\.0\.eventId: unknown field$", event(eventId=1)),
    "an event with a timestamp": Case(r"^events\.0\.timestamp: unknown field$", event(timestamp="2020-01-01")),
    "an unknown field of a payload": Case(
        r"^events\.0\.payload\.json\.more: unknown field$", event(payload={"type": "json", "data": 1, "more": 2})
    ),
    "an unknown field of a condition": Case(
        r"^condition\.before: unknown field$", condition(failIfEventsMatch={}, before=1)
    ),
    "an unknown field of a selection": Case(
        r"^condition\.failIfEventsMatch\.type: unknown field$", condition(failIfEventsMatch={"type": ["a"]})
    ),
    "a field by its name in the code": Case(
        r"^events\.0\.source_timestamp: unknown field$", event(source_timestamp="2020-01-01T00:00:00Z")
    ),
    "a condition by its name in the code": Case(r"fail_if_events_match: unknown", condition(fail_if_events_match={})),
    "no events": Case(r"^events: missing$", {}),
    "events that are an object": Case(r"^events: ", {"events": {"type": ["a"]}}),
    "events that are null": Case(r"^events: ", {"events": None}),
    "an event that is a list": Case(r"^events\.0: ", {"events": [["a"]]}),
    "a list where an object belongs": Case(r"object|dictionary|AppendRequest", []),
    "text where an object belongs": Case(r"object|dictionary|AppendRequest", "events"),
    "null where an object belongs": Case(r"object|dictionary|AppendRequest", b"null"),
    "no JSON": Case(r"^the body is no JSON: ", b"events"),
    "half a JSON": Case(r"^the body is no JSON: ", b'{"events":['),
    "two JSONs": Case(r"^the body is no JSON: ", b'{"events":[]}{"events":[]}'),
    "no body": Case(r"^the body is no JSON: ", b""),
    "a comment": Case(r"^the body is no JSON: ", b'{"events":[]} // none'),
    "single quotes": Case(r"^the body is no JSON: ", b"{'events':[]}"),
    "a trailing comma": Case(r"^the body is no JSON: ", b'{"events":[],}'),
    "bytes that are no UTF-8": Case(r"^the body is no JSON: ", raw(b'"\xff"')),
    "UTF-16": Case(r"^the body is no JSON: ", json.dumps(event()).encode("utf-16")),
    "a byte order mark": Case(r"^the body is no JSON: ", b"\xef\xbb\xbf" + json.dumps(event()).encode()),
    "a raw newline in text": Case(r"^the body is no JSON: ", raw(b'"a\nb"')),
    "NaN": Case(r"^the body is no JSON: ", raw(b"NaN")),
    "Infinity": Case(r"^the body is no JSON: ", raw(b"Infinity")),
    "minus Infinity": Case(r"^the body is no JSON: ", raw(b"[-Infinity]")),
    "1e999": Case(r"number", raw(b"1e999")),
    "-1e999 deep inside": Case(r"number", raw(b'{"a":[{"b":-1e999}]}')),
    "an integer of 5,000 digits": Case(r"number", raw(b"9" * 5000)),
    "a lone surrogate": Case(r"^the body is no JSON: ", raw(rb'"\ud800"')),
    "a lone surrogate in a type": Case(r"^the body is no JSON: ", rb'{"events":[{"type":["\udc00"]}]}'),
    "nesting without end": Case(r"^the body is no JSON: recursion", raw(b"[" * DEEP + b"]" * DEEP)),
    "objects without end": Case(r"^the body is no JSON: recursion", raw(b'{"a":' * DEEP + b"1" + b"}" * DEEP)),
    "bad base64": Case(
        r"^events\.0\.payload\.binary\.data: binary data is base64",
        event(payload={"type": "binary", "name": "n", "data": "YQ"}),
    ),
    "base64 with a newline": Case(
        r"^events\.0\.payload\.binary\.data: ", event(payload={"type": "binary", "name": "n", "data": "YQ==\n"})
    ),
    "an unknown kind of payload": Case(r"^events\.0\.payload: ", event(payload={"type": "xml", "data": ""})),
    "a payload without a kind": Case(r"^events\.0\.payload: ", event(payload={"data": 1})),
    "a payload that is a number": Case(r"^events\.0\.payload", event(payload=5)),
    "an empty key": Case(r"^events\.0\.key: ", event(key="")),
    "a key too long": Case(r"key", event(key="k" * 901)),
    "a key too long in bytes": Case(r"key", event(key="漢" * 301)),
    "a key that is a number": Case(r"^events\.0\.key: ", event(key=5)),
    "a time that is none": Case(r"^events\.0\.sourceTimestamp: a time is ISO-8601", event(sourceTimestamp="today")),
    "a time that is a number": Case(r"^events\.0\.sourceTimestamp: a time is", event(sourceTimestamp=1_478_257_656)),
    "a time before the year 1": Case(
        r"^events\.0\.sourceTimestamp: a time lies between", event(sourceTimestamp="0001-01-01T00:00:00+01:00")
    ),
    "a time after the year 9999": Case(
        r"^events\.0\.sourceTimestamp: a time lies between", event(sourceTimestamp="9999-12-31T23:59:59-01:00")
    ),
    "seconds beyond the calendar": Case(
        r"^events\.0\.sourceTimestamp: a time lies between", event(sourceTimestamp={"s": 10**15, "us": 0})
    ),
    "too many events": Case(
        r"^1001 events in one request; at most 1000", {"events": [{"type": []}] * 1001}, status=413
    ),
    "too many bytes": Case(
        r"bytes as JSON; at most 358400 fit",
        event(payload={"type": "json", "data": "x" * 358_400}),
        status=413,
    ),
    "a condition without a selection": Case(r"^condition\.failIfEventsMatch: missing$", condition(after=1)),
    "a condition that is a list": Case(r"^condition: ", {"events": [{"type": ["a"]}], "condition": []}),
    "a condition in the future": Case(
        r"^after=9007199254740991 lies in the future: the last event is \d+$",
        condition(failIfEventsMatch={}, after=2**53 - 1),
    ),
    "a condition after an impossible id": Case(r"^condition\.after: ", condition(failIfEventsMatch={}, after=2**53)),
    "a condition after a negative id": Case(r"^condition\.after: ", condition(failIfEventsMatch={}, after=-1)),
    "a condition after half an id": Case(r"^condition\.after: ", condition(failIfEventsMatch={}, after=1.5)),
    "a condition after true": Case(r"^condition\.after: ", condition(failIfEventsMatch={}, after=True)),
    "a condition on a bad pattern": Case(
        r"^condition\.failIfEventsMatch\.types\.0: in a pattern '\*' stands last",
        condition(failIfEventsMatch={"types": ["*/a"]}),
    ),
    "a condition on text": Case(r"^condition\.failIfEventsMatch\.types: ", condition(failIfEventsMatch={"types": "a"})),
    "text that is no JSON by its content type": Case(
        r"^the body must be application/json, not text/plain$",
        event(),
        status=415,
        headers={"Content-Type": "text/plain"},
    ),
    "a form": Case(
        r"^the body must be application/json, not application/x-www-form-urlencoded$",
        b"events=",
        status=415,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    ),
    "an empty idempotency key": Case(r"^an Idempotency-Key has", event(), headers={"Idempotency-Key": ""}),
    "an idempotency key too long": Case(r"^an Idempotency-Key has", event(), headers={"Idempotency-Key": "k" * 257}),
    "an unknown parameter": Case(r"^colour: unknown field$", query="colour=red"),
    "a parameter by its name in the code": Case(r"lastEventId|max_results: unknown", server_query={"max_results": 1}),
    "a repeated scalar": Case(r"^parameter 'after' may be given once, not 2 times$", query="after=1&after=2"),
    "limit 0": Case(r"^limit: Invalid limit=0", query="limit=0"),
    "a limit that is no number": Case(r"^limit: ", query="limit=ten"),
    "a limit too large": Case(r"^limit: ", query="limit=1000001"),
    "an empty limit": Case(r"^limit: ", query="limit="),
    "a bad duration": Case(r"^timeout: a duration is 60, 60s", query="timeout=soon"),
    "a negative duration": Case(r"^timeout: a duration is 60, 60s", query="timeout=-1"),
    "after that is no number": Case(r"^after: ", query="after=now"),
    "after that is negative": Case(r"^after: ", query="after=-1"),
    "after beyond 53 bits": Case(r"^after: ", query="after=9007199254740992"),
    "a bad pattern": Case(r"^types\.1: in a pattern '\*' stands last", query="types=a&types=*/a"),
    "half a wildcard": Case(r"^types\.0: in a pattern '\?' and '\*' stand for whole", query="types=a*"),
    "an empty key to look for": Case(r"^keys\.0: ", query="keys="),
    "a limit of results below 0": Case(r"^maxResults: ", server_query={"maxResults": -1}),
    "a limit of results that is true": Case(r"^maxResults: ", server_query={"maxResults": True}),
    "an id that is none": Case(r"^lastEventId: an event id is", server_query={"lastEventId": "1.1"}),
    "an id with a member too many": Case(
        r"^lastEventId: an event id is",
        server_query={"lastEventId": {"server": 1, "session": 1, "instance": 1, "more": 1}},
    ),
    "server 0": Case(r"^server: ", server_query={"server": 0}),
    "an unknown field of a query": Case(r"^order: unknown field$", server_query={"order": "descending"}),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_clearly_and_nothing_is_written(name: str, member: Member) -> None:
    case = CASES[name]
    member.publish("before")
    before = member.stored()
    answer = _ask(member, case)
    assert (answer.status_code, answer.headers["content-type"]) == (case.status, "application/problem+json"), (
        answer.text
    )
    problem = answer.json()
    assert (set(problem), problem["type"], problem["status"]) == (
        {"type", "title", "status", "detail"},
        "about:blank",
        case.status,
    )
    assert re.search(case.detail, problem["detail"]), problem["detail"]
    assert member.stored() == before


@pytest.mark.parametrize(
    "body",
    [
        event(type=["x?" * 500_000]),
        event(sourceTimestamp="x" * 1_000_000),
        condition(failIfEventsMatch={"types": ["x?" * 500_000]}),
        {"x" * 1_000_000: 1},
        {str(number): 1 for number in range(100_000)},
    ],
    ids=["a subtype", "a time", "a pattern", "a field", "many fields"],
)
def test_a_refusal_does_not_repeat_a_megabyte(body: object, member: Member) -> None:
    answer = member.post(body)
    assert (answer.status_code, len(answer.content) < 4_000) == (400, True)


def test_a_refusal_names_the_first_few_places(member: Member) -> None:
    answer = member.post({"events": [{}] * 8})
    named = "; ".join(f"events.{i}.type: missing" for i in range(5))
    assert answer.json()["detail"] == f"{named}; and 3 more"


def _ask(member: Member, case: Case) -> Any:
    if case.query is not None:
        return member.get(f"/events?{case.query}")
    if case.server_query is not None:
        return member.ask("POST", "/events/server", json=case.server_query)
    content = case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode()
    headers = {"Content-Type": "application/json", **case.headers}
    return member.ask("POST", "/events", content=content, headers=headers)
