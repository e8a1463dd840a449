"""A scenario in which every function does everything it can: policies may allow nothing else."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import boto3  # type: ignore[import-untyped]

from chalicelib import wiring
from chalicelib.domain.exports.table_export import EXPORTS_VIEW, LedgerEntry
from chalicelib.domain.organizations.organization import configuration_log, inbox_log
from chalicelib.domain.views.due import DUE_VIEW
from chalicelib.domain.views.record import MAX_CHARACTER
from chalicelib.services.calm.held_messages import KIND
from chalicelib.services.consumers.projector import rebuild
from chalicelib.services.reading.log_reader import MAX_SEARCH_DISTANCE
from chalicelib.wiring.exports import table_exporter
from infra.deploy.build.package import ROOT
from tests.deploy.installation import Installation, full_token, stream_event
from tests.torture.stores import REGION

EVENTS = ROOT / "tests" / "events"
ACME = 1
LARGE = {"text": "x" * 5_000}
"""Larger than a job's state keeps and than what is copied into its record, so that readers need the commits."""
NO_EVENTS = {"types": ["nothing/*"]}
NO_EVENTS_OF_KEY = {"keys": ["/noise/1"], "types": ["nothing/*"]}
HOUR_MS = 3_600_000
BUS = f"arn:aws:events:{REGION}:000000000000:event-bus/default"
SCHEDULED: dict[str, Any] = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}


def play(annals: Installation) -> None:
    """Run all steps. At first the views are behind the log, later they are not."""
    create_organizations(annals)
    start_export()
    publish(annals)
    ingest(annals)
    append(annals)
    read_without_views(annals)
    annals.call("project", stream_event(0, 1, 2, configuration_log(ACME)))
    publish_with_views(annals)
    append_with_views(annals)
    observe_and_deliver(annals)
    annals.call("project", stream_event(1, inbox_log(ACME)))
    read(annals)
    manage_observers(annals)
    be_calm(annals)
    ping(annals)
    annals.call("clean", SCHEDULED)
    export(annals)
    report(annals)
    read_console(annals)
    authorize(annals)
    rebuild_views(annals)


def create_organizations(annals: Installation) -> None:
    """Create organizations, and observers for every channel. The sender of `broken` is not verified in SES."""
    put = partial(annals.request, "PUT", "/organizations/{org}")
    put(org="acme", status=201)
    put(org="other", status=201)
    put(org="acme")
    mail = {"to": "ops@example.org", "from": "annals@example.org"}
    for name, configuration in {
        "mails": {"channel": "mail", "events": "redirect,finish", "config": mail},
        "posts": {"channel": "slack", "events": "finish", "config": {"url": "https://127.0.0.1:9/services/a/b/c"}},
        "notifies": {"channel": "app", "events": "all", "config": {"to": "anna"}},
        "buses": {"channel": "eventbridge", "events": "finish", "config": {"bus": "default"}},
        "held": {"channel": "app", "events": "finish", "digest": "1s", "config": {"to": "anna"}},
        "mine": {"channel": "app", "scope": "private", "events": "redirect,finish"},
        "broken": {"channel": "mail", "types": ["push/*"], "config": mail | {"from": "annals@elsewhere.example"}},
    }.items():
        annals.request("PUT", "/observers/{name}", configuration, 201, name=name)
    changed = {"channel": "app", "events": "finish", "config": {"to": "ben"}}
    annals.request("PUT", "/observers/{name}", changed, name="notifies")
    # The jobs start more often, which is an alarm.
    for name in ("rare-backups", "unused"):
        annals.request("PUT", "/expectations/{name}", {"type": "backup", "min_interval": "1h"}, 201, name=name)
    annals.request("DELETE", "/expectations/{name}", name="unused")


def publish(annals: Installation) -> None:
    """A repeated request, an empty one, and more commits than a scan reads."""
    event = _payload("publish")
    assert annals.call("publish", event) == annals.call("publish", event)
    annals.call("publish", {"org": "acme", "events": []})
    for n in range(2 * MAX_SEARCH_DISTANCE + 20):
        annals.call("publish", {"org": "acme", "events": [{"type": ["noise", str(n % 7)], "key": f"/noise/{n % 50}"}]})


def publish_with_views(annals: Installation) -> None:
    """Conditions on the whole log, which read the views by type and by key."""
    for matched in (NO_EVENTS, NO_EVENTS_OF_KEY):
        condition = {"failIfEventsMatch": matched, "after": 1}
        annals.call("publish", {"org": "acme", "events": [{"type": ["a"]}], "condition": condition})


def ingest(annals: Installation) -> None:
    """Messages, some of them redelivered, some put aside, some postponed."""
    with annals.refusing("PutItem"):
        assert annals.call("ingest", _payload("sqs_fifo_two_organizations"))["batchItemFailures"]
    for name in ("sqs_fifo_two_organizations", "sqs_fifo_redelivered", "sqs_fifo_unknown_organization"):
        annals.call("ingest", _payload(name))


def append(annals: Installation) -> None:
    """Events of all vocabularies."""
    post = partial(annals.request, "POST", "/events/{vocabulary}", status=201)
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
    # These two jobs send no more events.
    post(_job("create", 303, props={"clean_timeout": "0"}), vocabulary="job")
    post(_job("create", 304, props={"clean_timeout": "0"}, params=LARGE), vocabulary="job")
    # The deadline of this set is moved before it has passed.
    for timeout in ("0", "3600"):
        silent_set = {"event": "createJobSet", "id": 8, "node": "n1", "jobs": [], "props": {"clean_timeout": timeout}}
        post({"events": [silent_set]}, vocabulary="job")
    annals.request("POST", "/events", {"events": []})


def append_with_views(annals: Installation) -> None:
    """Events of existing jobs, from a process without caches. The last one ends their set."""
    post = partial(annals.request, "POST", "/events/{vocabulary}", vocabulary="job", status=201)
    for number in (301, 305):
        post({"event": "redirect", "id": number, "node": "n1", "redirect": "n2"})
    post(_job("progress", 301, jobset=7, progress="1/2", log={"message": "half of it"}))
    post(_job("progress", 999, progress="1/2"), status=200)
    for number in (301, 302):
        finish = _job("finish", number, jobset=7, success="1", message="well", props={"author": "anna"})
        key = {"Idempotency-Key": f"finish-{number}"}
        post(finish, headers=key)
        post(finish, headers=key, status=200)
    for status, matched in ((201, NO_EVENTS), (201, NO_EVENTS_OF_KEY), (409, {"keys": ["/noise/1"]})):
        condition = {"failIfEventsMatch": matched, "after": 1}
        annals.request("POST", "/events", {"events": [{"type": ["a"]}], "condition": condition}, status)


def observe_and_deliver(annals: Installation) -> None:
    """Deliver by mail and app. Slack deliveries are retried, those of `broken` are parked."""
    annals.call("observe", stream_event(1, 2))
    answers = annals.deliver_all(again=True)
    assert any(answer["batchItemFailures"] for answer in answers)
    assert len(annals.request("GET", "/users/{user}/inbox", user="anna", query={"after": "0"})["eventSnapshots"]) > 1
    assert annals.request("GET", "/observers/{name}", name="mails")["deliveries"]["sent"] > 1
    assert annals.request("GET", "/observers/{name}", name="buses")["deliveries"]["sent"] > 1
    assert annals.request("GET", "/observers/{name}", name="broken")["deliveries"]["parked"] > 1


def manage_observers(annals: Installation) -> None:
    """List deliveries, retry failures, replay, preview, test, and delete an observer. Mark messages as read."""
    (latest, *_) = annals.request("GET", "/observers/{name}/deliveries", name="broken")["deliveries"]
    event = "{server}.{session}.{instance}".format(**latest["event"])
    assert latest in annals.request("GET", "/deliveries", query={"event": event})["deliveries"]
    failed = annals.request("GET", "/events", query={"types": "notification/failed/mail/broken", "after": "0"})
    assert (
        len(failed["eventSnapshots"])
        == annals.request("GET", "/observers/{name}", name="broken")["deliveries"]["parked"]
    )
    messages = annals.request("GET", "/users/{user}/inbox", user="anna", query={"after": "0"})["eventSnapshots"]
    mark = {"eventId": messages[0]["eventId"]}
    marked = annals.request("POST", "/users/{user}/inbox/read", mark, user="anna")
    assert annals.request("GET", "/users/{user}/inbox/unread", user="anna") == marked
    assert (marked["readUpTo"], marked["unread"]) == (mark["eventId"], len(messages) - 1)
    (first, *_) = annals.request("GET", "/observers/{name}/failures", name="broken")["failures"]
    annals.request("POST", "/observers/{name}/retry", {"ids": [first["id"]]}, name="broken")
    annals.request("POST", "/observers/{name}/retry", name="broken")
    annals.request("POST", "/observers/{name}/replay", {"after": 0}, name="mine")
    for name in ("mails", "notifies"):
        configuration = {"channel": "app", "events": "finish", "config": {"to": "ben"}}
        annals.request("POST", "/observers/{name}/preview", {"configuration": configuration}, name=name)
        annals.request("POST", "/observers/{name}/test", name=name)
    annals.request("POST", "/observers/{name}/test", name="buses")
    annals.deliver_all()
    annals.request("DELETE", "/observers/{name}", name="posts")
    annals.deliver_all()


def be_calm(annals: Installation) -> None:
    """Snooze, silence and acknowledge. Held messages are sent when their time has come."""
    annals.request("POST", "/observers/{name}/snooze", {"until": "2100-01-01T00:00:00Z"}, name="mine")
    annals.request("POST", "/observers/{name}/snooze", {"until": None}, name="mine")
    silence = annals.request("POST", "/silences", {"type": "noise", "until": "2100-01-01T00:00:00Z"}, 201)["id"]
    annals.request("GET", "/silences")
    annals.request("DELETE", "/silences/{silence}", silence=str(silence))
    annals.request("POST", "/acknowledgements", {"type": "noise"}, 201)
    annals.request("GET", "/acknowledgements")
    annals.call("observe", stream_event(1))
    annals.until(lambda: not _held_messages(), partial(annals.call, "clean", SCHEDULED))
    annals.deliver_all()
    messages = annals.request("GET", "/users/{user}/inbox", user="anna", query={"after": "0"})["eventSnapshots"]
    assert any(message["observer"] == "held" and "(and " in message["subject"] for message in messages)


def _held_messages() -> list[str]:
    """The deadlines of held messages."""
    views = wiring.get_components().stores.views
    return [record.item for record in views.range(DUE_VIEW, "", MAX_CHARACTER) if f"/{KIND}/" in record.item]


def ping(annals: Installation) -> None:
    """Every path of a ping, with a new key."""
    key = annals.request("PUT", "/ping-keys/{name}", status=201, name="cron")["key"]
    annals.request("GET", "/ping-keys")
    success = partial(annals.request, route="/ping/{key}/{name}", key=key, name="nightly")
    signal = partial(annals.request, route="/ping/{key}/{name}/{signal}", key=key, name="nightly")
    success("GET", query={"create": "1"}, status=201)
    for method in ("GET", "HEAD", "POST"):
        signal(method, signal="start")
        signal(method, signal="log")
        success(method)
    annals.request("DELETE", "/ping-keys/{name}", name="cron")
    success("POST", status=404)


def read_without_views(annals: Installation) -> None:
    """Queries that read views, while there are none."""
    annals.request("GET", "/events", query={"after": "0", "types": "job/*"})
    annals.request("GET", "/events/latest", query={"types": "job/*"})
    annals.request("GET", "/jobs/{number}", number="304")
    annals.request("GET", "/objects/{collection}", collection="order")


def read(annals: Installation) -> None:
    """Every query, of one organization or of all."""
    get, acme = partial(annals.request, "GET"), {"X-Organization": "acme"}
    get("/health")
    first = get("/events", query={"after": "0", "limit": "3"}, headers=acme)["eventSnapshots"][0]
    for query in ({"types": "noise/1"}, {"keys": "/noise/1"}, {"limit": "-3", "types": "noise/1"}, {"timeout": "0.01"}):
        get("/events", query={"after": str(first["eventId"]), **query}, headers=acme)
    annals.request("POST", "/events/query", {"items": [{"keys": ["/noise/1"]}, {"tags": ["noise"]}]}, headers=acme)
    _read_as_hat(annals, first["id"])
    _read_as_jobscheduler(annals)
    routes: dict[str, dict[str, Any]] = {
        "/objects/{collection}": {"collection": "job"},
        "/objects/{collection}/{path+}": {"collection": "order", "path": "chain,1"},
        "/jobs/{number}": {"number": "304"},
        "/jobsets/{number}": {"number": "7"},
        "/organizations/{org}/pushy/jobs": {"org": "acme"},
        "/organizations/{org}/pushy/jobs/{job}": {"org": "acme", "job": "deploy"},
        "/job-types": {},
        "/job-types/{job_type}": {"job_type": "backup"},
        "/observer-presets": {},
        "/observers": {},
        "/observers/{name}": {"name": "notifies"},
        "/observers/{name}/failures": {"name": "notifies"},
        "/observers/{name}/deliveries": {"name": "notifies"},
        "/expectations": {},
        "/expectations/{name}": {"name": "rare-backups"},
        "/users/{user}/inbox": {"user": "anna"},
        "/users/{user}/inbox/unread": {"user": "anna"},
    }
    for route, at in routes.items():
        get(route, headers=acme, **at)
    stream = {"Accept": "text/event-stream", "Last-Event-ID": "1-2-3"}
    get("/organizations/{org}/pushy/job_status_feed", org="acme", headers=stream)
    get("/organizations/{org}/pushy/job_status_feed/{job}", org="acme", job="deploy", headers=stream)


def _read_as_hat(annals: Installation, first: dict[str, int]) -> None:
    last_event_id = ".".join(str(first[part]) for part in ("server", "session", "instance"))
    annals.request("GET", "/events/latest", query={"types": "job/*"})
    annals.request("POST", "/events/latest", {"types": ["job/*"]})
    for query in (
        {"types": "job/*"},
        {"orderBy": "sourceTimestamp"},
        {"order": "ascending", "lastEventId": last_event_id},
    ):
        annals.request("GET", "/events/timeseries", query=query)
    annals.request(
        "POST", "/events/timeseries", {"types": ["job/*"], "order": "ascending", "tFrom": "2026-01-01T00:00:00Z"}
    )
    annals.request("GET", "/events/server", query={"lastEventId": last_event_id})
    annals.request("POST", "/events/server", {"server": 1, "maxResults": 3})


def _read_as_jobscheduler(annals: Installation) -> None:
    collection, path = "/jobscheduler/master/api/{collection}", "/jobscheduler/master/api/{collection}/{path+}"
    for returned in ("OrderOverview", "Event", "OrderStatistics", "OrderStatisticsChanged"):
        query = {"return": returned, **({"after": "0"} if returned in ("Event", "OrderStatisticsChanged") else {})}
        annals.request("GET", path, collection="order", path="chain,1", query=query)
    annals.request("GET", collection, collection="order", query={"return": "OrderOverview"})
    annals.request("POST", collection, {"path": "/chain,1"}, collection="order", query={"return": "Event"})


def start_export() -> None:
    """Start a full export dated an hour ago, outside any function."""
    components = wiring.get_components()
    replace(table_exporter(components), clock=lambda: components.clock() - HOUR_MS).run()


def export(annals: Installation) -> None:
    """Start the next export. The first is found complete, the next is reported by S3."""
    annals.until(lambda: _exports()[0].state == "loaded", partial(annals.call, "export", SCHEDULED))
    event = _payload("s3_manifest_summary")
    key = f"exports/AWSDynamoDB/{_exports()[1].id}/manifest-summary.json"
    event["Records"][0]["s3"]["object"]["key"] = key
    annals.call("exported", event)
    assert [export.state for export in _exports()] == ["loaded", "loaded"]


def report(annals: Installation) -> None:
    """A report is ready, reported twice."""
    event = _payload("glue_job_state_change")
    event["detail"]["jobName"] = annals.stack.environment()["REPORTS_JOB"]
    pages = {"pages": [{"server": ACME, "period": {"from": "2026-11-01", "to": "2026-11-16"}}]}
    key = f"lake/_new_pages/{event['detail']['jobRunId']}.json"
    with annals.acting("reports job"):
        boto3.client("s3").put_object(
            Bucket=annals.stack.environment()["EXPORT_BUCKET"], Key=key, Body=json.dumps(pages).encode()
        )
    for _ in range(2):
        annals.call("reported", event)


def read_console(annals: Installation) -> None:
    """The console and the requests of its page. Sign-in has no valid code, and reports are in S3."""
    get = partial(annals.request, "GET")
    get("/")
    get("/console/{path+}", path="app.js")
    get("/openapi.json")
    get("/asyncapi.json")
    annals.request("POST", "/sign-in", {"code": "a code"}, 403)
    get("/me")
    get("/system")
    listed = get("/objects/{collection}", collection="jobset", query={"brief": "yes", "search": "n1"})["elements"]
    past = {"at": str(2**53 - 1)}
    get("/objects/{collection}/{path+}", collection="jobset", path=listed[0]["path"][1:], query=past)
    (report, *_) = get("/reports")["reports"]
    link = annals.request("POST", "/reports/{name}/link", name=report["name"])["link"]
    assert "/lake/reports/report-1.html?" in link
    get("/reports/{name}", status=403, name=report["name"], query={"ticket": "none"})


def authorize(annals: Installation) -> None:
    arn = annals.stack.place.arn("execute-api", "a1b2c3/api/GET/events")
    answer = annals.call("bearer", {"type": "TOKEN", "authorizationToken": f"Bearer {full_token()}", "methodArn": arn})
    assert answer["principalId"] == "anna"


def rebuild_views(annals: Installation) -> None:
    """Rebuild all views with an operator's permissions, not a function's."""
    with annals.acting("rebuild"):
        components = wiring.get_components()
        rebuild(ACME, components.stores.log, components.stores.views, lambda _done, _of: None)


def _exports() -> list[Any]:
    """The exports, oldest first."""
    return [
        LedgerEntry.from_record(record).export
        for record in wiring.get_components().stores.views.range(EXPORTS_VIEW, "", MAX_CHARACTER)
    ]


def _job(event: str, number: int, **more: Any) -> dict[str, Any]:
    return {"event": event, "id": number, "node": "n1", "type": "backup", **more}


def _payload(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event
