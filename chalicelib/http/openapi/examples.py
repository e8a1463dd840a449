"""Example requests, at least one for each operation. Tests send them in this order: later ones need earlier ones."""

from chalicelib.http.openapi.example import Example

_NDJSON = {"Accept": "application/x-ndjson"}
_SSE = {"Accept": "text/event-stream"}
_PUSH = {"org": "local", "job": "j200"}

_DEPLOYED = {
    "type": ["deploy", "finished"],
    "key": "/web",
    "sourceTimestamp": "2026-11-04T11:07:36Z",
    "payload": {"type": "json", "data": {"revision": "4f2a"}},
    "tags": ["service:web", "region:eu"],
}
_ONLY_ONE = {"failIfEventsMatch": {"types": ["deploy/started"], "keys": ["/db"]}, "after": 0}
_JOB = {"node": "n1", "id": 4800, "type": "backup", "props": {"author": "anna"}}
_MINE = {"scope": "private", "channel": "app", "events": "create, finish"}
_PAGER = {
    "channel": "webhook",
    "types": ["job/finish/*", "job/clean/*"],
    "config": {"url": "https://example.org/hooks/annals"},
}
_ORDER = "/folder/chain,117"
_PING = {"key": "local.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "name": "backup"}
_RUN = {"rid": "5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"}

EXAMPLES = (
    Example("post_events", body={"events": [_DEPLOYED]}, headers={"Idempotency-Key": "deploy-4f2a"}, status=201),
    Example(
        "post_events",
        body={"events": [{"type": ["deploy", "started"], "key": "/db"}], "condition": _ONLY_ONE},
        status=201,
    ),
    Example(
        "post_events",
        body={
            "events": [{"type": ["seat", "taken"], "tags": ["show:1", "seat:12"]}],
            "condition": {
                "failIfEventsMatch": {
                    "items": [{"types": ["seat/taken"], "tags": ["show:1", "seat:12"]}, {"types": ["show/ended"]}]
                }
            },
        },
        status=201,
    ),
    Example(
        "post_job_events",
        body={
            "events": [
                {"event": "createJobSet", "node": "n1", "id": 48, "jobs": [{"node": "n1", "type": "backup"}]},
                {"event": "create", **_JOB, "jobset": 48},
                {"event": "progress", **_JOB, "jobset": 48, "log": {"message": "copying", "level": 1}},
                {"event": "finish", **_JOB, "jobset": 48, "success": "1", "message": "done"},
            ]
        },
        status=201,
    ),
    Example("post_job_events", body={"event": "create", "node": "n1", "type": "restore"}, status=201),
    Example(
        "post_scheduler_events",
        body={
            "events": [
                {"TYPE": "OrderAdded", "key": _ORDER, "nodeId": "A"},
                {"TYPE": "OrderStarted", "key": _ORDER},
                {"TYPE": "OrderStepStarted", "key": _ORDER, "nodeId": "A", "taskId": "9"},
                {"TYPE": "TaskStarted", "key": {"jobPath": "/folder/job", "taskId": "9"}},
                {"TYPE": "JobChainStateChanged", "key": "/folder/chain", "state": "active"},
                {"TYPE": "JobStateChanged", "key": "/folder/job", "state": "running"},
                {"TYPE": "FileBasedActivated", "key": "Job:/folder/job"},
                {"TYPE": "SchedulerInitiated"},
            ]
        },
        status=201,
    ),
    Example(
        "post_push_events",
        body={
            "events": [
                {
                    "event": "start",
                    "job": "j200",
                    "command": "chef-client",
                    "run_timeout": 60,
                    "node_count": 1,
                    "user": "anna",
                },
                {"event": "quorum_vote", "job": "j200", "node": "n1", "status": "success"},
                {"event": "quorum_succeeded", "job": "j200"},
                {"event": "rehab", "job": "j200", "node": "n1"},
                {"event": "run_start", "job": "j200", "node": "n1"},
                {"event": "run_complete", "job": "j200", "node": "n1", "status": "success"},
                {"event": "job_complete", "job": "j200", "status": "complete"},
            ]
        },
        status=201,
    ),
    Example("get_events", query={"types": ["deploy/*", "job/finish/*"], "after": "0", "limit": "10"}),
    Example("get_events", query={"timeout": "0.2s", "heartbeat": "0.1s"}, headers=_NDJSON),
    Example("get_events", query={"timeout": "0.2s"}, headers={**_SSE, "Last-Event-ID": "0"}),
    Example("get_events", query={"tags": ["show:1", "seat:12"], "limit": "-1", "before": "9007199254740991"}),
    Example(
        "query_events", body={"items": [{"tags": ["show:1"]}, {"keys": ["/web"], "types": ["deploy/*"]}], "limit": 9}
    ),
    Example("events_latest_get", query={"types": ["deploy/*"]}),
    Example("events_latest_post", body={"types": [["deploy", "?"], "job/*"]}),
    Example("events_timeseries_get", query={"tFrom": "2026-11-01T00:00:00Z", "order": "ascending", "maxResults": "5"}),
    Example("events_timeseries_post", body={"types": ["deploy/*"], "tTo": {"s": 4102444800, "us": 0}, "maxResults": 5}),
    Example("events_server_get", query={"lastEventId": "1.1.0", "maxResults": "2"}),
    Example("events_server_post", body={"maxResults": 2}),
    Example("jobscheduler_get", path={"collection": "order"}, query={"return": "OrderStatistics"}),
    Example("jobscheduler_get", path={"collection": "event"}, query={"return": "Event", "limit": "3"}),
    Example("jobscheduler_get_at_path", path={"collection": "order", "path": "folder/"}),
    Example("jobscheduler_get_at_path", path={"collection": "order", "path": "folder/chain,117"}),
    Example(
        "jobscheduler_post",
        path={"collection": "order"},
        query={"return": "OrderEvent", "after": "0"},
        body={"path": "/folder/"},
    ),
    Example("get_objects", path={"collection": "order"}),
    Example("get_objects", path={"collection": "jobset"}),
    Example("get_objects_at_path", path={"collection": "pushJob", "path": "j200"}),
    Example("get_objects_at_path", path={"collection": "task", "path": "folder/*"}),
    Example("get_job", path={"number": "4800"}),
    Example("get_jobset", path={"number": "48"}),
    Example("get_job_types", query={"limit": "10", "result": "success"}),
    Example("get_job_type", path={"job_type": "backup"}),
    Example("push_jobs", path={"org": "local"}, query={"limit": "10"}),
    Example("push_job", path=_PUSH),
    Example("job_feed", path=_PUSH, headers=_SSE),
    Example("organization_feed", path={"org": "local"}, query={"after": "0"}, headers=_SSE, is_endless=True),
    Example(
        "put_observer",
        path={"name": "mine"},
        body=_MINE,
        status=201,
    ),
    Example("put_observer", path={"name": "pager"}, body=_PAGER, status=201),
    Example("post_preview", path={"name": "mine"}, body={"configuration": _MINE}),
    Example("post_preview", path={"name": "pager"}, body={"configuration": _PAGER}),
    Example("post_test", path={"name": "mine"}),
    Example("post_snooze", path={"name": "mine"}, body={"until": "2100-01-01T07:00:00Z"}),
    Example(
        "post_silence", body={"type": "backup", "until": "2100-01-01T07:00:00Z", "comment": "new disks"}, status=201
    ),
    Example("post_silence", body={"pattern": "job/?/n1/*", "until": "2100-01-01T07:00:00Z"}, status=201),
    Example("get_silences", query={"limit": "10", "before": "9007199254740991"}),
    Example("delete_silence", path={"silence": "17"}, status=404),
    Example("post_acknowledgement", body={"type": "backup", "comment": "I am on it"}, status=201),
    Example("get_acknowledgements"),
    Example("get_observers"),
    Example("get_observer_presets"),
    Example("get_observer", path={"name": "mine"}),
    Example("post_replay", path={"name": "mine"}, body={"since": "2026-01-01T00:00:00Z"}),
    Example("get_failures", path={"name": "mine"}, query={"limit": "10"}),
    Example("get_observer_deliveries", path={"name": "mine"}, query={"limit": "10"}),
    Example("get_deliveries", query={"event": "1.2.1"}),
    Example("post_retry", path={"name": "mine"}),
    Example("get_inbox", path={"user": "anna"}, query={"timeout": "5s"}),
    Example("post_read", path={"user": "anna"}, body={"eventId": 0}),
    Example("get_unread", path={"user": "anna"}),
    Example("delete_observer", path={"name": "mine"}),
    Example("delete_observer", path={"name": "pager"}),
    Example(
        "put_expectation",
        path={"name": "nightly-backup"},
        body={"type": "backup", "cron": "30 2 * * *", "time_zone": "Europe/Berlin", "max_duration": "2h"},
        status=201,
    ),
    Example("get_expectations", query={"limit": "10"}),
    Example("get_expectation", path={"name": "nightly-backup"}),
    Example("delete_expectation", path={"name": "nightly-backup"}),
    Example("put_ping_key", path={"name": "cron"}, status=201),
    Example("get_ping_keys"),
    Example("ping_success_get", path=_PING, query={"create": "1"}, status=404),
    Example("ping_success_head", path=_PING, query={"node": "n1"}, status=404),
    Example("ping_success_post", path=_PING, query=_RUN, body="12 tables saved", status=404),
    Example("ping_signal_get", path={**_PING, "signal": "start"}, query={**_RUN, "create": "1"}, status=404),
    Example("ping_signal_head", path={**_PING, "signal": "0"}, status=404),
    Example("ping_signal_post", path={**_PING, "signal": "fail"}, query=_RUN, body="no space left", status=404),
    Example("delete_ping_key", path={"name": "cron"}),
    Example("get_objects", path={"collection": "job"}, query={"brief": "yes", "limit": "10", "search": "backup"}),
    Example("get_objects_at_path", path={"collection": "job", "path": "4800"}, query={"at": "9007199254740991"}),
    Example("get_reports"),
    Example("post_report_link", path={"name": "report"}, status=404),
    Example("get_report", path={"name": "report"}, query={"ticket": "…"}, status=403),
    Example("post_sign_in", body={"code": "…"}, status=403),
    Example("get_me"),
    Example("get_system", query={"limit": "10"}),
    Example("put_organization", path={"org": "local"}),
    Example("get_health", query={"limit": "10", "after": "0"}),
    Example("get_openapi"),
    Example("get_asyncapi"),
    Example("get_page"),
    Example("get_file", path={"path": "app.js"}),
)


def examples_of(operation: str) -> list[Example]:
    return [example for example in EXAMPLES if example.operation == operation]
