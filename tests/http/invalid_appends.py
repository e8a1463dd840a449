"""Invalid append requests, with the status and a pattern of the detail of the expected problem."""

import json
from typing import Any

from tests.http.invalid_case import Case

DEEP = 100_000
ORDER = "/chain,1"
TASK = {"jobPath": "/job", "taskId": "7"}


def append(detail: str, body: object, status: int = 400, headers: dict[str, str] | None = None) -> Case:
    return Case(detail, "/events", body, status, headers or {})


def scheduler(detail: str, event: object) -> Case:
    return Case(detail, "/events/scheduler", event)


def event(**members: Any) -> dict[str, Any]:
    """A body with one event."""
    return {"events": [{"type": ["a"], **members}]}


def raw(data: bytes) -> bytes:
    """A body with one event whose payload is this JSON."""
    return b'{"events":[{"type":["a"],"payload":{"type":"json","data":' + data + b"}}]}"


def condition(**members: Any) -> dict[str, Any]:
    """A body with one event and a condition."""
    return {"events": [{"type": ["a"]}], "condition": members}


APPENDS = {
    "a question mark in a subtype": append(r"events\.0\.type\.1: .*\?", event(type=["a", "b?"])),
    "a star in a subtype": append(r"events\.0\.type\.0: .*\*", event(type=["*"])),
    "a slash in a subtype": append(r"events\.0\.type\.0: .*/", event(type=["a/b"])),
    "too many subtypes": append(r"events\.0\.type: .*450", event(type=[""] * 451)),
    "a type that is text": append(r"events\.0\.type: ", event(type="a/b")),
    "a type that is null": append(r"events\.0\.type: ", event(type=None)),
    "a type too long": append(r"a type may have at most 900 bytes", event(type=["x" * 901])),
    "a subtype that is a number": append(r"events\.0\.type\.0: ", event(type=[1])),
    "no type": append(r"events\.0\.type: missing", {"events": [{"key": "k"}]}),
    "the second event is bad": append(r"^events\.1\.type: missing$", {"events": [{"type": ["a"]}, {}]}),
    "an unknown field": append(r"^colour: unknown field$", {"events": [], "colour": "red"}),
    "an unknown field of an event": append(r"^events\.0\.colour: unknown field$", event(colour="red")),
    "an event with an id": append(r"^events\.0\.eventId: unknown field$", event(eventId=1)),
    "an event with a timestamp": append(r"^events\.0\.timestamp: unknown field$", event(timestamp="2020-01-01")),
    "an unknown field of a payload": append(
        r"^events\.0\.payload\.json\.more: unknown field$", event(payload={"type": "json", "data": 1, "more": 2})
    ),
    "an unknown field of a condition": append(
        r"^condition\.before: unknown field$", condition(failIfEventsMatch={}, before=1)
    ),
    "an unknown field of a selection": append(
        r"^condition\.failIfEventsMatch\.type: unknown field$", condition(failIfEventsMatch={"type": ["a"]})
    ),
    "a condition by its name in the code": append(r"fail_if_events_match: unknown", condition(fail_if_events_match={})),
    "no events": append(r"^events: missing$", {}),
    "events that are an object": append(r"^events: ", {"events": {"type": ["a"]}}),
    "events that are null": append(r"^events: ", {"events": None}),
    "an event that is a list": append(r"^events\.0: ", {"events": [["a"]]}),
    "a list instead of an object": append(r"object|dictionary|AppendRequest", []),
    "text instead of an object": append(r"object|dictionary|AppendRequest", "events"),
    "null instead of an object": append(r"object|dictionary|AppendRequest", b"null"),
    "invalid JSON": append(r"^the body is not valid JSON: ", b"events"),
    "truncated JSON": append(r"^the body is not valid JSON: ", b'{"events":['),
    "two JSON documents": append(r"^the body is not valid JSON: ", b'{"events":[]}{"events":[]}'),
    "no body": append(r"^the body is not valid JSON: ", b""),
    "a comment": append(r"^the body is not valid JSON: ", b'{"events":[]} // none'),
    "single quotes": append(r"^the body is not valid JSON: ", b"{'events':[]}"),
    "a trailing comma": append(r"^the body is not valid JSON: ", b'{"events":[],}'),
    "invalid UTF-8": append(r"^the body is not valid JSON: ", raw(b'"\xff"')),
    "UTF-16": append(r"^the body is not valid JSON: ", json.dumps(event()).encode("utf-16")),
    "a byte order mark": append(r"^the body is not valid JSON: ", b"\xef\xbb\xbf" + json.dumps(event()).encode()),
    "a raw newline in text": append(r"^the body is not valid JSON: ", raw(b'"a\nb"')),
    "NaN": append(r"^the body is not valid JSON: ", raw(b"NaN")),
    "Infinity": append(r"^the body is not valid JSON: ", raw(b"Infinity")),
    "minus Infinity": append(r"^the body is not valid JSON: ", raw(b"[-Infinity]")),
    "1e999": append(r"number", raw(b"1e999")),
    "-1e999 deep inside": append(r"number", raw(b'{"a":[{"b":-1e999}]}')),
    "an integer of a million digits": append(r"number", raw(b"9" * 1_000_000)),
    "a lone surrogate": append(r"^the body is not valid JSON: ", raw(rb'"\ud800"')),
    "a lone surrogate in a type": append(r"^the body is not valid JSON: ", rb'{"events":[{"type":["\udc00"]}]}'),
    "deeply nested lists": append(r"^the body is not valid JSON: recursion", raw(b"[" * DEEP + b"]" * DEEP)),
    "deeply nested objects": append(
        r"^the body is not valid JSON: recursion", raw(b'{"a":' * DEEP + b"1" + b"}" * DEEP)
    ),
    "bad base64": append(
        r"^events\.0\.payload\.binary\.data: binary data must be base64",
        event(payload={"type": "binary", "name": "n", "data": "YQ"}),
    ),
    "base64 with a newline": append(
        r"^events\.0\.payload\.binary\.data: ", event(payload={"type": "binary", "name": "n", "data": "YQ==\n"})
    ),
    "an unknown kind of payload": append(r"^events\.0\.payload: ", event(payload={"type": "xml", "data": ""})),
    "a payload without a kind": append(r"^events\.0\.payload: ", event(payload={"data": 1})),
    "a payload that is a number": append(r"^events\.0\.payload", event(payload=5)),
    "an empty key": append(r"^events\.0\.key: ", event(key="")),
    "a key too long": append(r"key", event(key="k" * 901)),
    "a key too long in bytes": append(r"key", event(key="漢" * 301)),
    "a key that is a number": append(r"^events\.0\.key: ", event(key=5)),
    "an empty tag": append(r"^events\.0\.tags\.1: ", event(tags=["a", ""])),
    "a tag too long": append(r"^events\.0\.tags\.0: .*200", event(tags=["t" * 201])),
    "a tag that is a number": append(r"^events\.0\.tags\.0: ", event(tags=[1])),
    "tags that are text": append(r"^events\.0\.tags: ", event(tags="a")),
    "too many tags": append(r"^events\.0\.tags: .*at most 16", event(tags=[str(n) for n in range(17)])),
    "an invalid time": append(r"^events\.0\.sourceTimestamp: a time is ISO-8601", event(sourceTimestamp="today")),
    "a time that is a number": append(r"^events\.0\.sourceTimestamp: a time is", event(sourceTimestamp=1_478_257_656)),
    "a time before the year 1": append(
        r"^events\.0\.sourceTimestamp: a time must be between", event(sourceTimestamp="0001-01-01T00:00:00+01:00")
    ),
    "a time after the year 9999": append(
        r"^events\.0\.sourceTimestamp: a time must be between", event(sourceTimestamp="9999-12-31T23:59:59-01:00")
    ),
    "seconds after the year 9999": append(
        r"^events\.0\.sourceTimestamp: a time must be between", event(sourceTimestamp={"s": 10**15, "us": 0})
    ),
    "too many events": append(
        r"^1001 events in one request; at most 1000", {"events": [{"type": []}] * 1001}, status=413
    ),
    "too many bytes": append(
        r"bytes as JSON; at most 358400 are",
        event(payload={"type": "json", "data": "x" * 358_400}),
        status=413,
    ),
    "a condition without a selection": append(r"^condition\.failIfEventsMatch: missing$", condition(after=1)),
    "a condition that is a list": append(r"^condition: ", {"events": [{"type": ["a"]}], "condition": []}),
    "a condition in the future": append(
        r"^after=9007199254740991 is beyond the end of the log: the last event is \d+$",
        condition(failIfEventsMatch={}, after=2**53 - 1),
    ),
    "a condition after an impossible id": append(r"^condition\.after: ", condition(failIfEventsMatch={}, after=2**53)),
    "a condition after a negative id": append(r"^condition\.after: ", condition(failIfEventsMatch={}, after=-1)),
    "a condition after a fractional id": append(r"^condition\.after: ", condition(failIfEventsMatch={}, after=1.5)),
    "a condition after true": append(r"^condition\.after: ", condition(failIfEventsMatch={}, after=True)),
    "a condition without events": append(
        r"^a condition needs events to append", {"events": [], "condition": {"failIfEventsMatch": {}}}
    ),
    "a condition on no types": append(
        r"^condition\.failIfEventsMatch\.types: the list is empty; leave it out",
        condition(failIfEventsMatch={"types": []}),
    ),
    "a condition on no keys": append(
        r"^condition\.failIfEventsMatch\.keys: the list is empty", condition(failIfEventsMatch={"keys": []})
    ),
    "a condition on no tags": append(
        r"^condition\.failIfEventsMatch\.tags: the list is empty", condition(failIfEventsMatch={"tags": []})
    ),
    "an item with no types": append(
        r"^condition\.failIfEventsMatch\.items\.1\.types: the list is empty",
        condition(failIfEventsMatch={"items": [{}, {"types": []}]}),
    ),
    "an unknown field of an item": append(
        r"^condition\.failIfEventsMatch\.items\.0\.tag: unknown field$",
        condition(failIfEventsMatch={"items": [{"tag": ["a"]}]}),
    ),
    "too many items": append(
        r"^condition\.failIfEventsMatch\.items: .*at most 100",
        condition(failIfEventsMatch={"items": [{"tags": ["a"]}] * 101}),
    ),
    "items and types": append(
        r"^condition\.failIfEventsMatch: give either items, or types, keys and tags$",
        condition(failIfEventsMatch={"items": [{"tags": ["a"]}], "types": ["a"]}),
    ),
    "a condition on a bad pattern": append(
        r"^condition\.failIfEventsMatch\.types\.0: '\*' is only allowed at the end of a pattern",
        condition(failIfEventsMatch={"types": ["*/a"]}),
    ),
    "a condition on text": append(
        r"^condition\.failIfEventsMatch\.types: ", condition(failIfEventsMatch={"types": "a"})
    ),
    "a text content type": append(
        r"^the body must be application/json, not text/plain$",
        event(),
        status=415,
        headers={"Content-Type": "text/plain"},
    ),
    "a form": append(
        r"^the body must be application/json, not application/x-www-form-urlencoded$",
        b"events=",
        status=415,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    ),
    "an empty idempotency key": append(r"^an Idempotency-Key has", event(), headers={"Idempotency-Key": ""}),
    "an idempotency key too long": append(r"^an Idempotency-Key has", event(), headers={"Idempotency-Key": "k" * 257}),
    "unclosed lists": append(r"^the body is not valid JSON: ", raw(b"[" * DEEP)),
    "an exponent of many digits": append(r"number", raw(b"1e" + b"9" * DEEP)),
    "an overlong encoding": append(r"^the body is not valid JSON: ", raw(b'"\xc0\xaf"')),
    "a raw zero": append(r"^the body is not valid JSON: ", raw(b'"a\x00b"')),
    "UTF-32": append(r"^the body is not valid JSON: ", json.dumps(event()).encode("utf-32")),
    "seconds that are text": append(r"^events\.0\.sourceTimestamp: ", event(sourceTimestamp={"s": "1", "us": 0})),
    "a prototype": append(r"__proto__: unknown field", b'{"__proto__":{"events":[]},"constructor":1}'),
}

VOCABULARIES = {
    "an unknown vocabulary": Case(
        r"^unknown vocabulary 'nope'; use one of .*scheduler", "/events/nope", {"events": []}, status=404
    ),
    "a vocabulary in capitals": Case(r"^unknown vocabulary 'SCHEDULER'", "/events/SCHEDULER", {}, status=404),
    "a vocabulary with GET": Case(r"^GET is not allowed here; allowed: POST$", "/events/scheduler", status=405),
    "no type": scheduler(r"TYPE", {"key": ORDER}),
    "an unknown type": scheduler(
        r"OrderEaten.*TYPE.*'OrderAdded', 'OrderRemoved'", {"TYPE": "OrderEaten", "key": ORDER}
    ),
    "a family instead of a type": scheduler(r"OrderEvent.*TYPE.*'OrderAdded'", {"TYPE": "OrderEvent", "key": ORDER}),
    "a type that is a number": scheduler(r"TYPE", {"TYPE": 5}),
    "no key": scheduler(r"key: missing", {"TYPE": "OrderRemoved"}),
    "an unexpected key": scheduler(r"key: unknown field", {"TYPE": "SchedulerClosed", "key": "/a"}),
    "no node": scheduler(r"nodeId: missing", {"TYPE": "OrderAdded", "key": ORDER}),
    "a node that is a number": scheduler(r"nodeId: .*string", {"TYPE": "OrderAdded", "key": ORDER, "nodeId": 100}),
    "a node without a name": scheduler(r"nodeId: .*at least 1", {"TYPE": "OrderAdded", "key": ORDER, "nodeId": ""}),
    "an order without an id": scheduler(
        r"key: the key of an order must have the form /job-chain,order-id", {"TYPE": "OrderRemoved", "key": "/chain"}
    ),
    "an order with an empty id": scheduler(
        r"key: the key of an order must", {"TYPE": "OrderRemoved", "key": "/chain,"}
    ),
    "an order without a job chain": scheduler(r"key: the key of an order must", {"TYPE": "OrderRemoved", "key": "/,1"}),
    "a path without a leading slash": scheduler(r"key: (?!subtype)", {"TYPE": "JobUnstopped", "key": "job"}),
    "a path with a star": scheduler(r"key: (?!subtype)", {"TYPE": "JobUnstopped", "key": "/a/*"}),
    "a path with a bar": scheduler(r"key: (?!subtype)", {"TYPE": "JobUnstopped", "key": "/a|/b"}),
    "a folder instead of a path": scheduler(r"key: (?!subtype)", {"TYPE": "JobUnstopped", "key": "/a/"}),
    "a path too long": scheduler(r"key: .*at most 800", {"TYPE": "JobUnstopped", "key": f"/{'a' * 800}"}),
    "a path too long in bytes": scheduler(
        r"key may have at most 900 bytes", {"TYPE": "JobUnstopped", "key": f"/{'漢' * 301}"}
    ),
    "a file without a kind": scheduler(r"key: (?!subtype).*Job", {"TYPE": "FileBasedAdded", "key": "/a"}),
    "a file of an unknown kind": scheduler(r"key: (?!subtype).*Job", {"TYPE": "FileBasedAdded", "key": "Foo:/a"}),
    "a task's key that is text": scheduler(r"key: ", {"TYPE": "TaskStarted", "key": "/job/7"}),
    "a task id that is a number": scheduler(
        r"key\.taskId: .*string", {"TYPE": "TaskStarted", "key": {"jobPath": "/job", "taskId": 7}}
    ),
    "an invalid task id": scheduler(
        r"key\.taskId: (?!subtype)", {"TYPE": "TaskStarted", "key": {"jobPath": "/job", "taskId": "x"}}
    ),
    "an invalid job path of a task": scheduler(
        r"key\.jobPath: (?!subtype)", {"TYPE": "TaskStarted", "key": {"jobPath": "job", "taskId": "7"}}
    ),
    "an unknown member of a task's key": scheduler(
        r"key\.more: unknown field", {"TYPE": "TaskStarted", "key": {**TASK, "more": 1}}
    ),
    "no return code": scheduler(r"returnCode: missing", {"TYPE": "TaskEnded", "key": TASK}),
    "a return code that is text": scheduler(
        r"returnCode: .*integer", {"TYPE": "TaskEnded", "key": TASK, "returnCode": "x"}
    ),
    "a return code that is true": scheduler(r"returnCode: ", {"TYPE": "TaskEnded", "key": TASK, "returnCode": True}),
    "an unknown transition": scheduler(
        r"nodeTransition: .*'Success', 'Error', 'Keep'",
        {"TYPE": "OrderStepEnded", "key": ORDER, "nodeTransition": {"TYPE": "Maybe"}},
    ),
    "an error without a return code": scheduler(
        r"nodeTransition\.Error\.returnCode: missing",
        {"TYPE": "OrderStepEnded", "key": ORDER, "nodeTransition": {"TYPE": "Error"}},
    ),
    "an unknown level": scheduler(r"level: (?!subtype).*info", {"TYPE": "Logged", "level": "loud", "message": ""}),
    "no message": scheduler(r"message: missing", {"TYPE": "Logged", "level": "info"}),
    "a variable that is a number": scheduler(
        r"variables\.a: .*string", {"TYPE": "VariablesCustomEvent", "key": "k", "variables": {"a": 1}}
    ),
    "an unknown member": scheduler(r"colour: unknown field", {"TYPE": "OrderRemoved", "key": ORDER, "colour": "red"}),
    "an EventId": scheduler(r"eventId: unknown field", {"TYPE": "OrderRemoved", "key": ORDER, "eventId": 1}),
    "a list of events": scheduler(r"object", [{"TYPE": "SchedulerClosed"}]),
    "text": scheduler(r"object", "SchedulerClosed"),
    "the second event": scheduler(
        r"^events\.1\..*key: missing", {"events": [{"TYPE": "SchedulerClosed"}, {"TYPE": "OrderRemoved"}]}
    ),
    "the second event's type": scheduler(r"^events\.1(\.TYPE)?: .*TYPE", {"events": [{"TYPE": "SchedulerClosed"}, {}]}),
    "an event that is text": scheduler(r"^events\.0: .*object", {"events": ["SchedulerClosed"]}),
    "a member beside the events": scheduler(r"^colour: unknown field$", {"events": [], "colour": "red"}),
    "a bad condition": scheduler(
        r"^condition\.failIfEventsMatch: missing$", {"events": [{"TYPE": "SchedulerClosed"}], "condition": {}}
    ),
    "too many events": Case(
        r"^1001 events in one request",
        "/events/scheduler",
        {"events": [{"TYPE": "SchedulerClosed"}] * 1001},
        status=413,
    ),
    "invalid JSON": Case(r"^the body is not valid JSON: ", "/events/scheduler", b"{"),
}
