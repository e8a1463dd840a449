"""A scenario in which every function does all that it can do: what nobody does here, no policy may allow."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

from chalicelib import wiring
from chalicelib.domain.exports.table_export import VIEW, Entry
from chalicelib.domain.organizations.organization import inbox_of
from chalicelib.domain.views.record import END
from chalicelib.services.consumers.projector import rebuild
from chalicelib.services.reading.log_reader import SCAN_THRESHOLD
from chalicelib.wiring.exports import table_exporting
from infra.deploy.build.package import ROOT
from tests.deploy.installation import Installation, a_token, grown

EVENTS = ROOT / "tests" / "events"
ACME = 1
LARGE = {"text": "x" * 2_000}
"""More than a job's state keeps: who wants all of it has to read the job's events."""
NOTHING = {"types": ["nothing/*"]}
NOTHING_OF_A_KEY = {"keys": ["/noise/1"], "types": ["nothing/*"]}
HOUR_MS = 3_600_000
SCHEDULED: dict[str, Any] = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}


def play(annals: Installation) -> None:
    """Everything, in an order in which views are behind the log at first, and then are not."""
    found(annals)
    export_begins()
    publish(annals)
    ingest(annals)
    append(annals)
    read_early(annals)
    annals.call("project", grown(0, 1, 2))
    publish_on(annals)
    append_on(annals)
    observe_and_deliver(annals)
    annals.call("project", grown(1, inbox_of(ACME)))
    read(annals)
    look_after_observers(annals)
    annals.call("clean", SCHEDULED)
    export(annals)
    report(annals)
    look_at_console(annals)
    authorize(annals)
    build_anew(annals)


def found(annals: Installation) -> None:
    """Organizations, and observers for every channel; the address that `broken` sends from is none of ours."""
    put = partial(annals.ask, "PUT", "/organizations/{org}")
    put(org="acme", status=201)
    put(org="other", status=201)
    put(org="acme")
    mail = {"to": "ops@example.org", "from": "annals@example.org"}
    for name, configuration in {
        "mails": {"channel": "mail", "events": "redirect,finish", "config": mail},
        "posts": {"channel": "slack", "events": "finish", "config": {"url": "https://127.0.0.1:9/services/a/b/c"}},
        "tells": {"channel": "app", "events": "all", "config": {"to": "anna"}},
        "mine": {"channel": "app", "scope": "private", "events": "redirect,finish"},
        "broken": {"channel": "mail", "types": ["push/*"], "config": mail | {"from": "annals@elsewhere.example"}},
    }.items():
        annals.ask("PUT", "/observers/{name}", configuration, 201, name=name)
    changed = {"channel": "app", "events": "finish", "config": {"to": "ben"}}
    annals.ask("PUT", "/observers/{name}", changed, name="tells")


def publish(annals: Installation) -> None:
    """A repeat, a condition, nothing at all, and then so many commits that reading them takes too long."""
    event = _payload("publish")
    assert annals.call("publish", event) == annals.call("publish", event)
    annals.call("publish", {"org": "acme", "events": []})
    for n in range(SCAN_THRESHOLD + 20):
        annals.call("publish", {"org": "acme", "events": [{"type": ["noise", str(n % 7)], "key": f"/noise/{n % 50}"}]})


def publish_on(annals: Installation) -> None:
    """Conditions on the whole log: by type and by key they are looked up in the views."""
    for matched in (NOTHING, NOTHING_OF_A_KEY):
        condition = {"failIfEventsMatch": matched, "after": 0}
        annals.call("publish", {"org": "acme", "events": [{"type": ["a"]}], "condition": condition})


def ingest(annals: Installation) -> None:
    """Messages, some for the second time."""
    for name in ("sqs_fifo_two_organizations", "sqs_fifo_redelivered", "sqs_fifo_unknown_organization"):
        annals.call("ingest", _payload(name))


def append(annals: Installation) -> None:
    """Events of all vocabularies."""
    post = partial(annals.ask, "POST", "/events/{vocabulary}", status=201)
    start = {"event": "start", "job": "deploy", "command": "ls", "run_timeout": 9, "node_count": 1, "user": "anna"}
    vote = {"event": "quorum_vote", "job": "deploy", "node": "n1", "status": "success"}
    post({"events": [start, vote]}, vocabulary="push")
    orders = [{"TYPE": "OrderAdded", "key": f"/chain,{n}", "nodeId": "100"} for n in range(3)]
    post({"events": orders}, vocabulary="scheduler")
    planned = {"node": "n1", "type": "backup"}
    jobset = {"event": "createJobSet", "id": 7, "node": "n1", "jobs": [planned, planned]}
    post({"events": [jobset]}, vocabulary="job")
    for number in (301, 302):
        post(_job("create", number, jobset=7, props={"author": "anna"}), vocabulary="job")
    post(_job("create", 305, props={"author": "anna"}, params=LARGE), vocabulary="job")
    # These two are silent from now on.
    post(_job("create", 303, props={"clean_timeout": "0"}), vocabulary="job")
    post(_job("create", 304, props={"clean_timeout": "0"}, params=LARGE), vocabulary="job")
    annals.ask("POST", "/events", {"events": []})


def append_on(annals: Installation) -> None:
    """What jobs do, told by somebody who remembers none of them; the last one ends their set."""
    post = partial(annals.ask, "POST", "/events/{vocabulary}", vocabulary="job", status=201)
    for number in (301, 305):
        post({"event": "redirect", "id": number, "node": "n1", "redirect": "n2"})
    post(_job("progress", 301, jobset=7, progress="1/2", log={"message": "half of it"}))
    post(_job("progress", 999, progress="1/2"), status=200)
    for number in (301, 302):
        finish = _job("finish", number, jobset=7, success="1", message="well", props={"author": "anna"})
        key = {"Idempotency-Key": f"finish-{number}"}
        post(finish, headers=key)
        post(finish, headers=key, status=200)
    for status, matched in ((201, NOTHING), (201, NOTHING_OF_A_KEY), (409, {"keys": ["/noise/1"]})):
        condition = {"failIfEventsMatch": matched, "after": 0}
        annals.ask("POST", "/events", {"events": [{"type": ["a"]}], "condition": condition}, status)


def observe_and_deliver(annals: Installation) -> None:
    """Mail, the app, and what fails: what Slack does not take is tried again, what is broken is parked."""
    annals.call("observe", grown(1, 2))
    answers = annals.bring(again=True)
    assert any(answer["batchItemFailures"] for answer in answers)
    assert len(annals.ask("GET", "/users/{user}/inbox", user="anna", query={"after": "0"})["eventSnapshots"]) > 1
    assert annals.ask("GET", "/observers/{name}", name="mails")["deliveries"]["sent"] > 1
    assert annals.ask("GET", "/observers/{name}", name="broken")["deliveries"]["parked"] > 1


def look_after_observers(annals: Installation) -> None:
    """Failures are listed and retried, one and all; the past is told again; an observer ends."""
    (first, *_) = annals.ask("GET", "/observers/{name}/failures", name="broken")["failures"]
    annals.ask("POST", "/observers/{name}/retry", {"ids": [first["id"]]}, name="broken")
    annals.ask("POST", "/observers/{name}/retry", name="broken")
    annals.ask("POST", "/observers/{name}/replay", {"after": 0}, name="mine")
    for name in ("mails", "tells"):
        configuration = {"channel": "app", "events": "finish", "config": {"to": "ben"}}
        annals.ask("POST", "/observers/{name}/preview", {"configuration": configuration}, name=name)
        annals.ask("POST", "/observers/{name}/test", name=name)
    annals.bring()
    annals.ask("DELETE", "/observers/{name}", name="posts")
    annals.bring()


def read_early(annals: Installation) -> None:
    """What views make quick, while there are none."""
    annals.ask("GET", "/events", query={"after": "0", "types": "job/*"})
    annals.ask("GET", "/events/latest", query={"types": "job/*"})
    annals.ask("GET", "/jobs/{number}", number="304")
    annals.ask("GET", "/objects/{collection}", collection="order")


def read(annals: Installation) -> None:
    """Every question that can be asked, of one organization or of all."""
    get, one = partial(annals.ask, "GET"), {"X-Organization": "acme"}
    get("/health")
    first = get("/events", query={"after": "0", "limit": "3"}, headers=one)["eventSnapshots"][0]
    for query in ({"types": "noise/1"}, {"keys": "/noise/1"}, {"limit": "-3", "types": "noise/1"}, {"timeout": "0.01"}):
        get("/events", query={"after": str(first["eventId"]), **query}, headers=one)
    _read_as_hat(annals, first["id"])
    _read_as_jobscheduler(annals)
    routes: dict[str, dict[str, Any]] = {
        "/objects/{collection}": {"collection": "job"},
        "/objects/{collection}/{path+}": {"collection": "order", "path": "chain,1"},
        "/jobs/{number}": {"number": "304"},
        "/jobsets/{number}": {"number": "7"},
        "/organizations/{org}/pushy/jobs": {"org": "acme"},
        "/organizations/{org}/pushy/jobs/{job}": {"org": "acme", "job": "deploy"},
        "/observers": {},
        "/observers/{name}": {"name": "tells"},
        "/observers/{name}/failures": {"name": "tells"},
        "/users/{user}/inbox": {"user": "anna"},
    }
    for route, at in routes.items():
        get(route, headers=one, **at)
    stream = {"Accept": "text/event-stream", "Last-Event-ID": "1-2-3"}
    get("/organizations/{org}/pushy/job_status_feed", org="acme", headers=stream)
    get("/organizations/{org}/pushy/job_status_feed/{job}", org="acme", job="deploy", headers=stream)


def _read_as_hat(annals: Installation, first: dict[str, int]) -> None:
    seen = ".".join(str(first[part]) for part in ("server", "session", "instance"))
    annals.ask("GET", "/events/latest", query={"types": "job/*"})
    annals.ask("POST", "/events/latest", {"types": ["job/*"]})
    for asked in ({"types": "job/*"}, {"orderBy": "sourceTimestamp"}, {"order": "ascending", "lastEventId": seen}):
        annals.ask("GET", "/events/timeseries", query=asked)
    annals.ask(
        "POST", "/events/timeseries", {"types": ["job/*"], "order": "ascending", "tFrom": "2026-01-01T00:00:00Z"}
    )
    annals.ask("GET", "/events/server", query={"lastEventId": seen})
    annals.ask("POST", "/events/server", {"server": 1, "maxResults": 3})


def _read_as_jobscheduler(annals: Installation) -> None:
    collection, path = "/jobscheduler/master/api/{collection}", "/jobscheduler/master/api/{collection}/{path+}"
    for returned in ("OrderOverview", "Event", "OrderStatistics", "OrderStatisticsChanged"):
        query = {"return": returned, **({"after": "0"} if returned in ("Event", "OrderStatisticsChanged") else {})}
        annals.ask("GET", path, collection="order", path="chain,1", query=query)
    annals.ask("GET", collection, collection="order", query={"return": "OrderOverview"})
    annals.ask("POST", collection, {"path": "/chain,1"}, collection="order", query={"return": "Event"})


def export_begins() -> None:
    """An hour ago the whole table was exported; nobody here is asked what they may."""
    parts = wiring.annals()
    replace(table_exporting(parts), clock=lambda: parts.clock() - HOUR_MS).run()


def export(annals: Installation) -> None:
    """The next export begins; the first is found to be complete, the next is told to have arrived."""
    annals.until(lambda: _exports()[0].state == "loaded", partial(annals.call, "export", SCHEDULED))
    event = _payload("s3_manifest_summary")
    key = f"exports/AWSDynamoDB/{_exports()[1].id}/manifest-summary.json"
    event["Records"][0]["s3"]["object"]["key"] = key
    annals.call("exported", event)
    assert [export.state for export in _exports()] == ["loaded", "loaded"]


def report(annals: Installation) -> None:
    """A report is ready, and told to be so twice."""
    event = _payload("glue_job_state_change")
    event["detail"]["jobName"] = annals.stack.environment()["REPORTS_JOB"]
    for _ in range(2):
        annals.call("reported", event)


def look_at_console(annals: Installation) -> None:
    """The page and what it asks for; nobody has a code, and reports are in S3."""
    get = partial(annals.ask, "GET")
    get("/")
    get("/console/{path+}", path="app.js")
    get("/openapi.json")
    get("/asyncapi.json")
    annals.ask("POST", "/sign-in", {"code": "a code"}, 403)
    get("/me")
    get("/system")
    listed = get("/objects/{collection}", collection="jobset", query={"brief": "yes", "search": "n1"})["elements"]
    past = {"at": str(2**53 - 1)}
    get("/objects/{collection}/{path+}", collection="jobset", path=listed[0]["path"][1:], query=past)
    (report, *_) = get("/reports")["reports"]
    link = annals.ask("POST", "/reports/{name}/link", name=report["name"])["link"]
    assert "/lake/reports/report-1.html?" in link
    get("/reports/{name}", status=403, name=report["name"], query={"ticket": "none"})


def authorize(annals: Installation) -> None:
    """Somebody shows a token."""
    arn = annals.stack.place.arn("execute-api", "a1b2c3/api/GET/events")
    answer = annals.call("bearer", {"type": "TOKEN", "authorizationToken": f"Bearer {a_token()}", "methodArn": arn})
    assert answer["principalId"] == "anna"


def build_anew(annals: Installation) -> None:
    """What people do with their own rights, and no function does: build all views anew."""
    with annals.acting("rebuild"):
        parts = wiring.annals()
        rebuild(ACME, parts.log, parts.views, lambda _done, _of: None)


def _exports() -> list[Any]:
    """The exports, from early to late."""
    return [Entry.of(record).export for record in wiring.annals().views.range(VIEW, "", END)]


def _job(event: str, number: int, **more: Any) -> dict[str, Any]:
    return {"event": event, "id": number, "node": "n1", "type": "backup", **more}


def _payload(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event
