"""Questions that mean nothing get a refusal that says what was expected; never a 500, never an empty success."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.serving import Member, Server

API = "/jobscheduler/master/api"
NDJSON = {"Accept": "application/x-ndjson"}
FOREIGN = "{foreign}"
"""In the place of a server's number: that of an organization which the caller may not read."""

Json = dict[str, Any]


@dataclass
class Case:
    """A request, the status it gets, and what the refusal says."""

    detail: str
    target: str
    body: object = None
    """For POST: JSON, or bytes to send as they are. None: the request is a GET."""
    status: int = 400
    headers: dict[str, str] = field(default_factory=dict)


def timeseries(detail: str, **members: Any) -> Case:
    """A timeseries query by POST."""
    return Case(detail, "/events/timeseries", members)


def latest(detail: str, **members: Any) -> Case:
    """A latest query by POST."""
    return Case(detail, "/events/latest", members)


def orders(detail: str, **members: Any) -> Case:
    """A path query by POST."""
    return Case(detail, f"{API}/order?return=Event", members)


def scheduler(detail: str, event: object) -> Case:
    """An event of JobScheduler."""
    return Case(detail, "/events/scheduler", event)


ONE, OTHER = "2020-01-01T00:00:00Z", "2020-01-01T00:00:00.000001Z"
ORDER = "/chain,1"
TASK = {"jobPath": "/job", "taskId": "7"}
MANY_TYPES = "&".join(f"types=t{n}" for n in range(101))
MANY_KEYS = "&".join(f"keys=k{n}" for n in range(101))

QUERIES = {
    "tFrom later than tTo": timeseries(r"tFrom is later than tTo", tFrom=OTHER, tTo=ONE),
    "tFrom later than tTo with GET": Case(r"tFrom is later than tTo", f"/events/timeseries?tFrom={OTHER}&tTo={ONE}"),
    "sourceTFrom later than sourceTTo": timeseries(
        r"sourceTFrom is later than sourceTTo", sourceTFrom=OTHER, sourceTTo=ONE
    ),
    "a time that is none": timeseries(r"^tFrom: a time is ISO-8601", tFrom="yesterday"),
    "a time that is a number": timeseries(r"^tTo: a time is ISO-8601", tTo=1_478_257_656),
    "a time that is no text in a query": Case(r"^tTo: a time is ISO-8601", "/events/timeseries?tTo=1478257656"),
    "a time beyond the calendar": timeseries(r"^sourceTTo: a time lies between", sourceTTo={"s": 10**15, "us": 0}),
    "microseconds too many": timeseries(r"^sourceTFrom: a time is ISO-8601", sourceTFrom={"s": 1, "us": 10**6}),
    "an unknown order": timeseries(r"^order: .*'ascending' or 'descending'", order="sideways"),
    "an unknown order in a query": Case(r"^order: .*'ascending' or 'descending'", "/events/timeseries?order=asc"),
    "an unknown time to order by": timeseries(r"^orderBy: .*'timestamp' or 'sourceTimestamp'", orderBy="eventId"),
    "a limit below 0": timeseries(r"^maxResults: .*greater than or equal to 0", maxResults=-1),
    "a limit that is true": timeseries(r"^maxResults: ", maxResults=True),
    "a limit that is no number": Case(r"^maxResults: .*integer", "/events/timeseries?maxResults=many"),
    "a limit that is empty": Case(r"^maxResults: .*integer", "/events/timeseries?maxResults="),
    "half a limit": timeseries(r"^maxResults: .*integer", maxResults=1.5),
    "an id that is none": timeseries(
        r"^lastEventId: an event id is written server\.session\.instance", lastEventId="7"
    ),
    "an id with text": Case(r"^lastEventId: an event id is written", "/events/timeseries?lastEventId=1.1.x"),
    "an id that is negative": timeseries(r"^lastEventId: an event id is", lastEventId="-1.1.1"),
    "an id that lacks a number": timeseries(r"^lastEventId: an event id is", lastEventId={"server": 1, "session": 1}),
    "an id that is a number": timeseries(r"^lastEventId: an event id is", lastEventId=17),
    "an id without end": timeseries(r"^lastEventId: an event id is", lastEventId=f"1.{'9' * 30}.1"),
    "an id of a foreign server": timeseries(r"lastEventId .*{foreign}", lastEventId=f"{FOREIGN}.1.1"),
    "an id of a foreign server in a query": Case(
        r"lastEventId .*{foreign}", f"/events/timeseries?lastEventId={FOREIGN}.1.1"
    ),
    "an id of a foreign server in a server query": Case(
        r"^lastEventId {foreign}\.1\.1 is an event of another server", f"/events/server?lastEventId={FOREIGN}.1.1"
    ),
    "a foreign server": Case(
        r"^server {foreign} is none of yours, which are \[\d+\]$", f"/events/server?server={FOREIGN}"
    ),
    "a server that does not exist": Case(r"^server 999999 is none of yours", "/events/server?server=999999"),
    "a pattern with a star amid": timeseries(
        r"^types\.0: in a pattern '\*' stands last, unlike in 'a/\*/b'", types=["a/*/b"]
    ),
    "a pattern with half a wildcard": latest(
        r"^types\.1: in a pattern '\?' and '\*' stand for whole", types=["a", "b?"]
    ),
    "a pattern in a query": Case(r"^types\.0: in a pattern '\*' stands last", "/events/latest?types=*/a"),
    "types that are text": latest(r"^types: ", types="a"),
    "types that are null inside": latest(r"^types\.0: ", types=[None]),
    "too many types for latest": Case(r"types: .*at most 100", f"/events/latest?{MANY_TYPES}"),
    "too many types for a timeseries": Case(r"types: .*at most 100", f"/events/timeseries?{MANY_TYPES}"),
    "too many types for the feed": Case(r"types: .*at most 100", f"/events?{MANY_TYPES}"),
    "too many keys for the feed": Case(r"keys: .*at most 100", f"/events?{MANY_KEYS}"),
    "a list where an object belongs": Case(r"object|dictionary|TimeseriesParameters", "/events/timeseries", []),
    "no JSON": Case(r"^the body is no JSON: ", "/events/timeseries", b"types=a"),
    "no body": Case(r"^the body is no JSON: ", "/events/latest", b""),
    "a form": Case(
        r"^the body must be application/json, not application/x-www-form-urlencoded$",
        "/events/latest",
        b"types=a",
        status=415,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    ),
}

UNKNOWN = {
    "a parameter of the feed": Case(r"^colour: unknown field$", "/events?colour=red"),
    "a parameter of latest": Case(r"^tFrom: unknown field$", f"/events/latest?tFrom={ONE}"),
    "a parameter of latest in the body": latest(r"^maxResults: unknown field$", maxResults=1),
    "a parameter of a timeseries": Case(r"^server: unknown field$", "/events/timeseries?server=1"),
    "a parameter of a timeseries in the body": timeseries(r"^after: unknown field$", after=0),
    "a parameter of the server query": Case(r"^types: unknown field$", "/events/server?types=a"),
    "a parameter of JobScheduler's": Case(r"^path: unknown field$", f"{API}/order?path=/a"),
    "types for JobScheduler": Case(r"^types: unknown field$", f"{API}/event?types=a"),
    "a parameter of objects": Case(r"^return: unknown field$", "/objects/order?return=OrderOverview"),
    "a member of a path query": orders(r"^folder: unknown field$", folder="/a/"),
    "tFrom by its name in the code": Case(r"^t_from: unknown field$", f"/events/timeseries?t_from={ONE}"),
    "orderBy by its name in the code": timeseries(r"^order_by: unknown field$", order_by="sourceTimestamp"),
    "lastEventId by its name in the code": timeseries(r"^last_event_id: unknown field$", last_event_id="1.1.1"),
    "tornOlder by its name in the code": Case(r"^torn_older: unknown field$", "/events?torn_older=1"),
    "return by its name in the code": Case(r"^returned: unknown field$", f"{API}/event?returned=OrderEvent"),
    "sourceTimestamp by its name in the code": Case(
        r"^events\.0\.source_timestamp: unknown field$", "/events", {"events": [{"type": [], "source_timestamp": ONE}]}
    ),
    "jobPath by its name in the code": scheduler(
        r"job_path: unknown field", {"TYPE": "TaskStarted", "key": {"job_path": "/j", "task_id": "1"}}
    ),
    "a parameter given twice": Case(
        r"^parameter 'order' may be given once, not 2 times$", "/events/timeseries?order=ascending&order=descending"
    ),
    "return given twice": Case(
        r"^parameter 'return' may be given once, not 2 times$", f"{API}/event?return=Event&return=Logged"
    ),
}

FEEDS = {
    "limit 0": Case(
        r"^limit: Invalid limit=0; a positive limit is the oldest first", f"{API}/order?return=Event&limit=0"
    ),
    "limit 0 of lines": Case(r"^limit: Invalid limit=0", f"{API}/event?limit=0", headers=NDJSON),
    "a limit too large": Case(r"^limit: .*1000000", f"{API}/event?limit=1000001"),
    "a limit too small": Case(r"^limit: .*-1000000", f"{API}/event?limit=-1000001"),
    "after that is no number": Case(r"^after: .*integer", f"{API}/event?after=now"),
    "after that is negative": Case(r"^after: .*greater than or equal to 0", f"{API}/event?after=-1"),
    "after beyond 53 bits": Case(r"^after: .*less than 9007199254740992", f"{API}/event?after=9007199254740992"),
    "a bad timeout": Case(
        r"^timeout: a duration is 60, 60s, .*, not 'soon'$", f"{API}/order?return=Event&timeout=soon"
    ),
    "a bad delay": Case(r"^delay: a duration is 60, 60s, .*, not '-1s'$", f"{API}/order?return=Event&delay=-1s"),
    "a bad age": Case(r"^tornOlder: a duration is 60, 60s", f"{API}/order?return=Event&tornOlder=old"),
    "a bad heartbeat": Case(r"^heartbeat: a duration is 60, 60s", f"{API}/event?heartbeat=1d", headers=NDJSON),
    "a heartbeat without a pause": Case(r"^heartbeat: ", f"{API}/event?heartbeat=0&timeout=0.1s", headers=NDJSON),
    "a heartbeat without end": Case(
        r"^heartbeat: ", "/events?heartbeat=0.000000001&timeout=0.1s&types=no", headers=NDJSON
    ),
    "a bad timeout of statistics": Case(
        r"^timeout: a duration is", f"{API}/order?return=OrderStatisticsChanged&timeout=x"
    ),
    "a bad parameter of a snapshot": Case(r"^timeout: a duration is", f"{API}/order?return=OrderOverview&timeout=x"),
}

RETURNS = {
    "an unknown type": Case(
        r"^Unrecognized event type: return=Foo; known are Event, OrderEvent, .* and their subtypes$",
        f"{API}/event?return=Foo",
    ),
    "nothing": Case(r"^Unrecognized event type: return=; known are", f"{API}/event?return="),
    "an unknown type in a list": Case(r"^Unrecognized event type: return=Foo; ", f"{API}/order?return=OrderAdded,Foo"),
    "a list that does not end": Case(r"^Unrecognized event type: return=; ", f"{API}/order?return=OrderAdded,"),
    "the overview of another collection": Case(r"return=OrderOverview", f"{API}/jobChain?return=OrderOverview"),
    "an overview of events": Case(r"return=EventOverview", f"{API}/event?return=EventOverview"),
    "statistics of job chains": Case(r"return=OrderStatistics", f"{API}/jobChain?return=OrderStatistics"),
    "statistics of events": Case(r"return=OrderStatisticsChanged", f"{API}/event?return=OrderStatisticsChanged"),
    "statistics in a list": Case(
        r"return=OrderStatisticsChanged", f"{API}/order?return=OrderEvent,OrderStatisticsChanged"
    ),
    "a name without end": Case(r"^Unrecognized event type: return=x{80};", f"{API}/event?return={'x' * 5000}"),
    "an unknown collection": Case(
        r"^there is no collection 'orders', only order, jobChain, task, fileBased, scheduler, job, event$",
        f"{API}/orders",
    ),
    "an unknown collection with a path": Case(r"^there is no collection 'orders', only ", f"{API}/orders/a/"),
    "an unknown collection by POST": Case(r"^there is no collection 'orders', only ", f"{API}/orders", {}),
    "an unknown collection of objects": Case(
        r"^there is no collection 'foo', only job, jobset, order, jobChain, schedulerJob, task", "/objects/foo"
    ),
    "an unknown collection of objects with a path": Case(r"^there is no collection 'foo', only ", "/objects/foo/a/b"),
    "objects that are events": Case(r"^there is no collection 'event', only ", "/objects/event"),
    "a collection of keys": Case(r"^there is no collection", "/objects/%20"),
}

PATHS = {
    "path and paths": orders(r"^give either path or paths$", path="/a", paths=["/b"]),
    "no paths": orders(r"^paths: .*at least 1 item", paths=[]),
    "too many paths": orders(r"^paths: .*at most 1000", paths=["/a"] * 1001),
    "paths that are text": orders(r"^paths: ", paths="/a"),
    "a path that is a number": orders(r"^path: .*string", path=5),
    "a path that is a list": orders(r"^path: .*string", path=["/a"]),
    "a path that begins nowhere": orders(r"a path begins with '/', unlike 'a'", paths=["a"]),
    "a star within a name": orders(r"in a path '\*' stands alone at the end, as in '/folder/\*'", path="/a*"),
    "a star within a name in a URL": Case(r"in a path '\*' stands alone at the end", f"{API}/order/a*"),
    "a star amid a path": Case(r"in a path '\*' stands alone at the end", f"{API}/order/*/b?return=Event"),
    "two stars": Case(r"in a path '\*' stands alone at the end", "/objects/order/a/**"),
    "a star in an alternative": Case(r"in a path '\*' stands alone at the end", f"{API}/order/a|/b*"),
    "alternatives in a list of paths": orders(r"\|", paths=["/a|/b"]),
    "a path that is null inside": orders(r"^paths\.0: ", paths=[None]),
    "a list for a path query": Case(r"object|dictionary|PathQueryJson", f"{API}/order", ["/a"]),
    "no JSON for a path query": Case(r"^the body is no JSON: ", f"{API}/order", b"/a"),
    "a path query as text": Case(
        r"^the body must be application/json, not text/plain$",
        f"{API}/order",
        b"/a",
        status=415,
        headers={"Content-Type": "text/plain"},
    ),
    "a path of all events": Case(r"path", f"{API}/event/aFolder/?return=Event"),
    "a path query of all events": Case(r"path", f"{API}/event?return=Event", {"path": "/aFolder/"}),
    "a path in the URL of a POST": Case(r"^POST is not possible here, only GET$", f"{API}/order/a", {}, status=405),
}

VOCABULARIES = {
    "an unknown vocabulary": Case(
        r"^there is no vocabulary 'nope', only .*scheduler", "/events/nope", {"events": []}, status=404
    ),
    "a vocabulary in capitals": Case(r"^there is no vocabulary 'SCHEDULER'", "/events/SCHEDULER", {}, status=404),
    "a vocabulary with GET": Case(r"^GET is not possible here, only POST$", "/events/scheduler", status=405),
    "no type": scheduler(r"TYPE", {"key": ORDER}),
    "an unknown type": scheduler(
        r"OrderEaten.*TYPE.*'OrderAdded', 'OrderRemoved'", {"TYPE": "OrderEaten", "key": ORDER}
    ),
    "a family for a type": scheduler(r"OrderEvent.*TYPE.*'OrderAdded'", {"TYPE": "OrderEvent", "key": ORDER}),
    "a type that is a number": scheduler(r"TYPE", {"TYPE": 5}),
    "no key": scheduler(r"key: missing", {"TYPE": "OrderRemoved"}),
    "a key too many": scheduler(r"key: unknown field", {"TYPE": "SchedulerClosed", "key": "/a"}),
    "no node": scheduler(r"nodeId: missing", {"TYPE": "OrderAdded", "key": ORDER}),
    "a node that is a number": scheduler(r"nodeId: .*string", {"TYPE": "OrderAdded", "key": ORDER, "nodeId": 100}),
    "a node without a name": scheduler(r"nodeId: .*at least 1", {"TYPE": "OrderAdded", "key": ORDER, "nodeId": ""}),
    "an order without an id": scheduler(
        r"key: the key of an order is written /job-chain,order-id", {"TYPE": "OrderRemoved", "key": "/chain"}
    ),
    "an order with an empty id": scheduler(r"key: the key of an order is", {"TYPE": "OrderRemoved", "key": "/chain,"}),
    "an order without a job chain": scheduler(r"key: the key of an order is", {"TYPE": "OrderRemoved", "key": "/,1"}),
    "a path that begins nowhere": scheduler(r"key: (?!subtype)", {"TYPE": "JobUnstopped", "key": "job"}),
    "a path with a star": scheduler(r"key: (?!subtype)", {"TYPE": "JobUnstopped", "key": "/a/*"}),
    "a path with a bar": scheduler(r"key: (?!subtype)", {"TYPE": "JobUnstopped", "key": "/a|/b"}),
    "a folder for a path": scheduler(r"key: (?!subtype)", {"TYPE": "JobUnstopped", "key": "/a/"}),
    "a path too long": scheduler(r"key: .*at most 800", {"TYPE": "JobUnstopped", "key": f"/{'a' * 800}"}),
    "a path too long in bytes": scheduler(
        r"key may have at most 900 bytes", {"TYPE": "JobUnstopped", "key": f"/{'漢' * 301}"}
    ),
    "a file without a kind": scheduler(r"key: (?!subtype).*Job", {"TYPE": "FileBasedAdded", "key": "/a"}),
    "a file of an unknown kind": scheduler(r"key: (?!subtype).*Job", {"TYPE": "FileBasedAdded", "key": "Foo:/a"}),
    "a task's key that is text": scheduler(r"key: ", {"TYPE": "TaskStarted", "key": "/job/7"}),
    "a task's number that is a number": scheduler(
        r"key\.taskId: .*string", {"TYPE": "TaskStarted", "key": {"jobPath": "/job", "taskId": 7}}
    ),
    "a task's number that is none": scheduler(
        r"key\.taskId: (?!subtype)", {"TYPE": "TaskStarted", "key": {"jobPath": "/job", "taskId": "x"}}
    ),
    "a task's job that is none": scheduler(
        r"key\.jobPath: (?!subtype)", {"TYPE": "TaskStarted", "key": {"jobPath": "job", "taskId": "7"}}
    ),
    "a member of a task's key too many": scheduler(
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
    "a member too many": scheduler(r"colour: unknown field", {"TYPE": "OrderRemoved", "key": ORDER, "colour": "red"}),
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
    "no JSON": Case(r"^the body is no JSON: ", "/events/scheduler", b"{"),
}

ACCESS = {
    "an organization of others": Case(
        r"^'anna' is not associated with organization 'others'$",
        "/events/latest",
        status=403,
        headers={"X-Organization": "others"},
    ),
    "a snapshot of others": Case(
        r"^'anna' is not associated", f"{API}/order", status=403, headers={"X-Organization": "others"}
    ),
    "objects of others": Case(
        r"^'anna' is not associated", "/objects/order", status=403, headers={"X-Organization": "others"}
    ),
    "no object": Case(r"^there is nothing at /no,1$", "/objects/order/no,1", status=404),
    "no route": Case(r"^there is nothing at /objects$", "/objects", status=404),
    "no route of JobScheduler": Case(r"^there is nothing at ", "/jobscheduler/master/api", status=404),
    "PUT": Case(r"^PUT is not possible here, only GET, POST$", "/events/latest", status=405),
}

TABLES = [QUERIES, UNKNOWN, FEEDS, RETURNS, PATHS, VOCABULARIES, ACCESS]


@pytest.fixture(scope="module")
def foreign(server: Server) -> int:
    """The number of a server whose organization nobody here belongs to."""
    other = server.organization()
    other.publish("a")
    return other.create()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{name}: {title}")
        for name, table in zip(
            ("query", "unknown", "feed", "return", "path", "vocabulary", "access"), TABLES, strict=True
        )
        for title, case in table.items()
    ],
)
def test_what_means_nothing_is_refused_clearly_and_nothing_is_written(case: Case, foreign: int, member: Member) -> None:
    member.publish("before")
    before = member.stored()
    answer = asked(member, case, foreign)
    assert (answer.status_code, answer.headers["content-type"]) == (case.status, "application/problem+json"), (
        answer.text
    )
    problem = answer.json()
    members = {"type", "title", "status", "detail"} | ({"error"} if case.status == 403 else set())
    assert (set(problem), problem["status"]) == (members, case.status)
    assert re.search(case.detail.replace(FOREIGN, str(foreign)), problem["detail"]), problem["detail"]
    assert len(problem["detail"]) < 2_000
    assert member.stored() == before


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
        ("/events?tornOlder=999999999999&heartbeat=999999999999", ["a", "b"]),
        ("/events?tornOlder=infinite&heartbeat=infinite&delay=infinite&timeout=infinite", ["a", "b"]),
        ("/events?limit=1000000", ["a", "b"]),
        ("/events?limit=-1000000", ["b", "a"]),
    ],
)
def test_extremes_are_no_errors(target: str, expected: list[str], member: Member) -> None:
    member.publish("a")
    member.publish("b")
    answer = member.get(target)
    assert answer.status_code == 200, answer.text
    events = answer.json().get("events", answer.json().get("eventSnapshots"))
    assert [event["type"] for event in events] == [[type_] for type_ in expected]


@pytest.mark.parametrize("session", ["999999999999999", "0"])
@pytest.mark.parametrize("instance", ["999999999999999", "0"])
def test_ids_far_out_are_no_errors(session: str, instance: str, member: Member) -> None:
    last = f"{member.create()}.{session}.{instance}"
    member.publish("a")
    for query in ("timeseries", "server"):
        assert member.get(f"/events/{query}", params={"lastEventId": last}).status_code == 200


@pytest.mark.parametrize(
    "given",
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
    ],
)
def test_a_refusal_does_not_repeat_all_that_was_sent(
    given: Callable[[str], tuple[str, str, Any]], member: Member
) -> None:
    method, target, body = given("x" * 20_000)
    answer = member.ask(method, target, **({} if body is None else {"json": body}))
    assert (answer.status_code, len(answer.content) < 4_000) == (400, True), len(answer.content)


def asked(member: Member, case: Case, foreign: int) -> Any:
    """The answer to the case's request."""
    target = case.target.replace(FOREIGN, str(foreign))
    if case.body is None:
        return member.ask("PUT" if "PUT" in case.detail else "GET", target, headers=case.headers)
    content = (
        case.body if isinstance(case.body, bytes) else json.dumps(case.body).replace(FOREIGN, str(foreign)).encode()
    )
    return member.ask("POST", target, content=content, headers={"Content-Type": "application/json", **case.headers})
