"""Invalid queries, with the status and a pattern of the detail of the expected problem."""

from typing import Any

from tests.http.invalid_appends import scheduler
from tests.http.invalid_case import API, FOREIGN, Case

NDJSON = {"Accept": "application/x-ndjson"}
EARLIER, LATER = "2020-01-01T00:00:00Z", "2020-01-01T00:00:00.000001Z"
MANY = 10_000
MANY_TYPES = "&".join(f"types=t{n}" for n in range(101))
MANY_KEYS = "&".join(f"keys=k{n}" for n in range(101))


def timeseries(detail: str, **members: Any) -> Case:
    return Case(detail, "/events/timeseries", members)


def latest(detail: str, **members: Any) -> Case:
    return Case(detail, "/events/latest", members)


def orders(detail: str, **members: Any) -> Case:
    return Case(detail, f"{API}/order?return=Event", members)


QUERIES = {
    "tFrom later than tTo": timeseries(r"tFrom is later than tTo", tFrom=LATER, tTo=EARLIER),
    "tFrom later than tTo with GET": Case(
        r"tFrom is later than tTo", f"/events/timeseries?tFrom={LATER}&tTo={EARLIER}"
    ),
    "sourceTFrom later than sourceTTo": timeseries(
        r"sourceTFrom is later than sourceTTo", sourceTFrom=LATER, sourceTTo=EARLIER
    ),
    "an invalid time": timeseries(r"^tFrom: a time is ISO-8601", tFrom="yesterday"),
    "a time that is a number": timeseries(r"^tTo: a time is ISO-8601", tTo=1_478_257_656),
    "an invalid time in a query": Case(r"^tTo: a time is ISO-8601", "/events/timeseries?tTo=1478257656"),
    "a time after the year 9999": timeseries(r"^sourceTTo: a time must be between", sourceTTo={"s": 10**15, "us": 0}),
    "too many microseconds": timeseries(r"^sourceTFrom: a time is ISO-8601", sourceTFrom={"s": 1, "us": 10**6}),
    "an unknown order": timeseries(r"^order: .*'ascending' or 'descending'", order="sideways"),
    "an unknown order in a query": Case(r"^order: .*'ascending' or 'descending'", "/events/timeseries?order=asc"),
    "an unknown orderBy": timeseries(r"^orderBy: .*'timestamp' or 'sourceTimestamp'", orderBy="eventId"),
    "a limit below 0": timeseries(r"^maxResults: .*greater than or equal to 0", maxResults=-1),
    "a limit that is true": timeseries(r"^maxResults: ", maxResults=True),
    "a limit that is not a number": Case(r"^maxResults: .*integer", "/events/timeseries?maxResults=many"),
    "a limit that is empty": Case(r"^maxResults: .*integer", "/events/timeseries?maxResults="),
    "a fractional limit": timeseries(r"^maxResults: .*integer", maxResults=1.5),
    "an invalid id": timeseries(r"^lastEventId: an event id is written server\.session\.instance", lastEventId="7"),
    "an id with text": Case(r"^lastEventId: an event id is written", "/events/timeseries?lastEventId=1.1.x"),
    "an id that is negative": timeseries(r"^lastEventId: an event id is", lastEventId="-1.1.1"),
    "an id that lacks a number": timeseries(r"^lastEventId: an event id is", lastEventId={"server": 1, "session": 1}),
    "an id that is a number": timeseries(r"^lastEventId: an event id is", lastEventId=17),
    "an id of many digits": timeseries(r"^lastEventId: an event id is", lastEventId=f"1.{'9' * 30}.1"),
    "an id of a foreign server in a server query": Case(
        r"^lastEventId {foreign}\.1\.1 belongs to server {foreign}, not to server \d+$",
        f"/events/server?lastEventId={FOREIGN}.1.1",
    ),
    "a pattern with a star in the middle": timeseries(
        r"^types\.0: '\*' is only allowed at the end of a pattern, not as in 'a/\*/b'", types=["a/*/b"]
    ),
    "a pattern with a partial wildcard": latest(r"^types\.1: '\?' and '\*' match whole subtypes", types=["a", "b?"]),
    "an invalid pattern in a query": Case(
        r"^types\.0: '\*' is only allowed at the end of a pattern", "/events/latest?types=*/a"
    ),
    "types that are text": latest(r"^types: ", types="a"),
    "types that contain null": latest(r"^types\.0: ", types=[None]),
    "too many types for latest": Case(r"types: .*at most 100", f"/events/latest?{MANY_TYPES}"),
    "too many types for a timeseries": Case(r"types: .*at most 100", f"/events/timeseries?{MANY_TYPES}"),
    "too many types for the feed": Case(r"types: .*at most 100", f"/events?{MANY_TYPES}"),
    "too many keys for the feed": Case(r"keys: .*at most 100", f"/events?{MANY_KEYS}"),
    "a list instead of an object": Case(r"object|dictionary|TimeseriesParameters", "/events/timeseries", []),
    "invalid JSON": Case(r"^the body is not valid JSON: ", "/events/timeseries", b"types=a"),
    "no body": Case(r"^the body is not valid JSON: ", "/events/latest", b""),
    "a form": Case(
        r"^the body must be application/json, not application/x-www-form-urlencoded$",
        "/events/latest",
        b"types=a",
        status=415,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    ),
    "an id with an unknown member": timeseries(
        r"^lastEventId: an event id is", lastEventId={"server": 1, "session": 1, "instance": 1, "more": 1}
    ),
    "server 0": Case(r"^server: ", "/events/server", {"server": 0}),
    "a negative limit of the server query": Case(r"^maxResults: ", "/events/server", {"maxResults": -1}),
}

UNKNOWN = {
    "a parameter of the feed": Case(r"^colour: unknown field$", "/events?colour=red"),
    "a parameter of latest": Case(r"^tFrom: unknown field$", f"/events/latest?tFrom={EARLIER}"),
    "a parameter of latest in the body": latest(r"^order: unknown field$", order="ascending"),
    "a parameter of a timeseries": Case(r"^server: unknown field$", "/events/timeseries?server=1"),
    "a parameter of a timeseries in the body": timeseries(r"^after: unknown field$", after=0),
    "a parameter of the server query": Case(r"^types: unknown field$", "/events/server?types=a"),
    "a parameter of JobScheduler's": Case(r"^path: unknown field$", f"{API}/order?path=/a"),
    "types for JobScheduler": Case(r"^types: unknown field$", f"{API}/event?types=a"),
    "a parameter of objects": Case(r"^return: unknown field$", "/objects/order?return=OrderOverview"),
    "a member of a path query": orders(r"^folder: unknown field$", folder="/a/"),
    "tFrom by its name in the code": Case(r"^t_from: unknown field$", f"/events/timeseries?t_from={EARLIER}"),
    "orderBy by its name in the code": timeseries(r"^order_by: unknown field$", order_by="sourceTimestamp"),
    "lastEventId by its name in the code": timeseries(r"^last_event_id: unknown field$", last_event_id="1.1.1"),
    "tornOlder by its name in the code": Case(r"^torn_older: unknown field$", "/events?torn_older=1"),
    "return by its name in the code": Case(r"^returned: unknown field$", f"{API}/event?returned=OrderEvent"),
    "sourceTimestamp by its name in the code": Case(
        r"^events\.0\.source_timestamp: unknown field$",
        "/events",
        {"events": [{"type": [], "source_timestamp": EARLIER}]},
    ),
    "jobPath by its name in the code": scheduler(
        r"job_path: unknown field", {"TYPE": "TaskStarted", "key": {"job_path": "/j", "task_id": "1"}}
    ),
    "a parameter given twice": Case(
        r"^parameter 'order' must not be repeated; it was given 2 times$",
        "/events/timeseries?order=ascending&order=descending",
    ),
    "return given twice": Case(
        r"^parameter 'return' must not be repeated; it was given 2 times$", f"{API}/event?return=Event&return=Logged"
    ),
    "maxResults by its name in the code": Case(r"max_results: unknown", "/events/server", {"max_results": 1}),
}

FEEDS = {
    "limit 0": Case(
        r"^limit: Invalid limit=0. A positive limit returns the oldest", f"{API}/order?return=Event&limit=0"
    ),
    "limit 0 of lines": Case(r"^limit: Invalid limit=0", f"{API}/event?limit=0", headers=NDJSON),
    "a limit too large": Case(r"^limit: .*1000000", f"{API}/event?limit=1000001"),
    "a limit too small": Case(r"^limit: .*-1000000", f"{API}/event?limit=-1000001"),
    "after is not a number": Case(r"^after: .*integer", f"{API}/event?after=now"),
    "after with an underscore": Case(r"^after: a number has digits only", "/events?after=1_000"),
    "after with a space": Case(r"^after: a number has digits only", "/events?after=%201"),
    "after is negative": Case(r"^after: .*greater than or equal to 0", f"{API}/event?after=-1"),
    "after beyond 53 bits": Case(r"^after: .*less than 9007199254740992", f"{API}/event?after=9007199254740992"),
    "a bad timeout": Case(
        r"^timeout: a duration is 60, 60s, .*, not 'soon'$", f"{API}/order?return=Event&timeout=soon"
    ),
    "a bad delay": Case(r"^delay: a duration is 60, 60s, .*, not '-1s'$", f"{API}/order?return=Event&delay=-1s"),
    "a bad age": Case(r"^tornOlder: a duration is 60, 60s", f"{API}/order?return=Event&tornOlder=old"),
    "a bad heartbeat": Case(r"^heartbeat: a duration is 60, 60s", f"{API}/event?heartbeat=1d", headers=NDJSON),
    "a heartbeat of 0": Case(r"^heartbeat: ", f"{API}/event?heartbeat=0&timeout=0.1s", headers=NDJSON),
    "a heartbeat that is too short": Case(
        r"^heartbeat: ", "/events?heartbeat=0.000000001&timeout=0.1s&types=no", headers=NDJSON
    ),
    "a bad timeout of statistics": Case(
        r"^timeout: a duration is", f"{API}/order?return=OrderStatisticsChanged&timeout=x"
    ),
    "a bad parameter of a snapshot": Case(r"^timeout: a duration is", f"{API}/order?return=OrderOverview&timeout=x"),
    "a limit that is not a number": Case(r"^limit: ", "/events?limit=ten"),
    "an empty limit": Case(r"^limit: ", "/events?limit="),
    "an empty key": Case(r"^keys\.0: ", "/events?keys="),
    "an empty tag": Case(r"^tags\.0: ", "/events?tags="),
    "too many tags": Case(r"^tags: .*at most 16", "/events?" + "&".join(f"tags={n}" for n in range(17))),
    "before without a limit": Case(r"^before requires a negative limit", "/events?before=7"),
    "before with a positive limit": Case(r"^before requires a negative limit", f"{API}/event?before=7&limit=7"),
    "before is negative": Case(r"^before: .*greater than or equal to 0", "/events?before=-1&limit=-1"),
    "before in a stream": Case(
        r"^limit must be positive: a stream", "/events?before=7&limit=-1", headers={"Accept": "text/event-stream"}
    ),
    "no body of an event query": Case(r"^the body is not valid JSON: ", "/events/query", b""),
    "an item with no tags": Case(r"^items\.0\.tags: the list is empty", "/events/query", {"items": [{"tags": []}]}),
    "a query with types beside its items": Case(r"^types: unknown field$", "/events/query", {"types": ["a"]}),
    "a query with too many items": Case(r"^items: .*at most 100", "/events/query", {"items": [{}] * 101}),
    "a query with too many terms": Case(
        r"^the items have 1100 types, keys and tags; at most 1000",
        "/events/query",
        {"items": [{"keys": [f"/{n}" for n in range(100)]}] * 11},
    ),
    "a query before a position without a limit": Case(r"^before requires", "/events/query", {"before": 7}),
    "a query with a bad timeout": Case(r"^timeout: a duration is", "/events/query", {"timeout": -1}),
}

RETURNS = {
    "an unknown type": Case(
        r"^Unrecognized event type: return=Foo; use Event, OrderEvent, .* or one of their subtypes$",
        f"{API}/event?return=Foo",
    ),
    "an empty return": Case(r"^Unrecognized event type: return=; use Event", f"{API}/event?return="),
    "an unknown type in a list": Case(r"^Unrecognized event type: return=Foo; ", f"{API}/order?return=OrderAdded,Foo"),
    "a list with a trailing comma": Case(r"^Unrecognized event type: return=; ", f"{API}/order?return=OrderAdded,"),
    "the overview of another collection": Case(r"return=OrderOverview", f"{API}/jobChain?return=OrderOverview"),
    "an overview of events": Case(r"return=EventOverview", f"{API}/event?return=EventOverview"),
    "statistics of job chains": Case(r"return=OrderStatistics", f"{API}/jobChain?return=OrderStatistics"),
    "statistics of events": Case(r"return=OrderStatisticsChanged", f"{API}/event?return=OrderStatisticsChanged"),
    "statistics in a list": Case(
        r"return=OrderStatisticsChanged", f"{API}/order?return=OrderEvent,OrderStatisticsChanged"
    ),
    "a long name": Case(r"^Unrecognized event type: return=x{80};", f"{API}/event?return={'x' * 5000}"),
    "an unknown collection": Case(
        r"^unknown collection 'orders'; use one of order, jobChain, task, fileBased, scheduler, job, event$",
        f"{API}/orders",
    ),
    "an unknown collection with a path": Case(r"^unknown collection 'orders'; use one of ", f"{API}/orders/a/"),
    "an unknown collection by POST": Case(r"^unknown collection 'orders'; use one of ", f"{API}/orders", {}),
    "an unknown collection of objects": Case(
        r"^unknown collection 'foo'; use one of job, jobset, jobType, order, jobChain, schedulerJob", "/objects/foo"
    ),
    "an unknown collection of objects with a path": Case(r"^unknown collection 'foo'; use one of ", "/objects/foo/a/b"),
    "objects that are events": Case(r"^unknown collection 'event'; use one of ", "/objects/event"),
    "a blank collection": Case(r"^unknown collection", "/objects/%20"),
}

PATHS = {
    "path and paths": orders(r"^give either path or paths$", path="/a", paths=["/b"]),
    "no paths": orders(r"^paths: .*at least 1 item", paths=[]),
    "too many paths": orders(r"^paths: .*at most 1000", paths=["/a"] * 1001),
    "paths that are text": orders(r"^paths: ", paths="/a"),
    "a path that is a number": orders(r"^path: .*string", path=5),
    "a path that is a list": orders(r"^path: .*string", path=["/a"]),
    "a path without a leading slash": orders(r"a path must begin with '/': 'a'", paths=["a"]),
    "a star within a name": orders(r"'\*' is only allowed at the end of a path, as in '/folder/\*'", path="/a*"),
    "a star within a name in a URL": Case(r"'\*' is only allowed at the end of a path", f"{API}/order/a*"),
    "a star in the middle of a path": Case(
        r"'\*' is only allowed at the end of a path", f"{API}/order/*/b?return=Event"
    ),
    "two stars": Case(r"'\*' is only allowed at the end of a path", "/objects/order/a/**"),
    "a star in an alternative": Case(r"'\*' is only allowed at the end of a path", f"{API}/order/a|/b*"),
    "alternatives in a list of paths": orders(r"\|", paths=["/a|/b"]),
    "paths that contain null": orders(r"^paths\.0: ", paths=[None]),
    "a list for a path query": Case(r"object|dictionary|PathQueryJson", f"{API}/order", ["/a"]),
    "invalid JSON for a path query": Case(r"^the body is not valid JSON: ", f"{API}/order", b"/a"),
    "a path query as text": Case(
        r"^the body must be application/json, not text/plain$",
        f"{API}/order",
        b"/a",
        status=415,
        headers={"Content-Type": "text/plain"},
    ),
    "a path of all events": Case(r"path", f"{API}/event/aFolder/?return=Event"),
    "a path query of all events": Case(r"path", f"{API}/event?return=Event", {"path": "/aFolder/"}),
    "a path in the URL of a POST": Case(r"^POST is not allowed here; allowed: GET$", f"{API}/order/a", {}, status=405),
}

ACCESS = {
    "a foreign organization": Case(
        r"^'anna' is not associated with organization 'others'$",
        "/events/latest",
        status=403,
        headers={"X-Organization": "others"},
    ),
    "a snapshot of a foreign organization": Case(
        r"^'anna' is not associated", f"{API}/order", status=403, headers={"X-Organization": "others"}
    ),
    "objects of a foreign organization": Case(
        r"^'anna' is not associated", "/objects/order", status=403, headers={"X-Organization": "others"}
    ),
    "an unknown object": Case(r"^there is nothing at /objects/order/no,1$", "/objects/order/no,1", status=404),
    "an unknown route": Case(r"^there is nothing at /objects$", "/objects", status=404),
    "an unknown route of JobScheduler": Case(r"^there is nothing at ", "/jobscheduler/master/api", status=404),
    "PUT": Case(r"^PUT is not allowed here; allowed: GET, POST$", "/events/latest", status=405, method="PUT"),
}

LONG = {
    "a pattern of many subtypes": Case(r"^types\.0: ", f"/events?types={'?/' * MANY}*"),
    "a pattern of brackets": Case(r"^types\.0: ", f"/events?types={'[' * MANY}"),
    "many parameters": Case(r"unknown field", f"/events?{'&'.join(f'a{n}=' for n in range(8_000))}"),
    "many paths": Case(r"at most 1,?000 paths", f"{API}/order/{'|'.join(map(str, range(MANY)))}"),
    "many folders": Case(r"path", f"/objects/order/{'*|' * MANY}"),
    "a number of many digits": Case(r"^after: ", f"/events?after={'9' * 60_000}"),
    "a number of many zeros": Case(r"^limit: ", f"/events?limit={'0' * 60_000}"),
    "a duration of many units": Case(r"^timeout: ", f"/events?timeout={'1h' * 30_000}"),
    "a duration of many digits": Case(r"^timeout: ", f"/events?timeout={'1' * 60_000}"),
    "a time of many digits": Case(r"^tFrom: ", f"/events/timeseries?tFrom={'1' * 60_000}"),
    "an id of many numbers": Case(r"^lastEventId: ", f"/events/server?lastEventId={'1.' * 30_000}"),
    "a long search": Case(r"^search: ", f"/objects/order?brief=yes&search={'a' * 60_000}"),
    "a parameter that is not UTF-8": Case(r"not valid UTF-8", "/events?%FF=1"),
    "a value that is not UTF-8": Case(r"not valid UTF-8", "/events?keys=%C3"),
}
