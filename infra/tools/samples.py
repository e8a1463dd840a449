"""Sample events for previews and tests of message templates."""

from typing import Any, Final
from zoneinfo import ZoneInfo

from pydantic_core import to_json

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent, encode
from chalicelib.domain.events.ids import Id
from chalicelib.domain.vocabularies.job.events import new_event
from chalicelib.services.notifications.messages.alarm_scope import alarm_scope, template_of
from chalicelib.services.notifications.messages.times import MessageTimes

Scope = dict[str, Any]

_PARAMS = {"branch": "release/2026.11", "environment": "production", "dry_run": "no"}
_PROPS = {"author": "anna.kowalski", "creator": "slack"}
_JOB: Scope = {"time": 1794805200, "node": "build-7.example.org", "id": 4711, "type": "deploy", "params": _PARAMS}
_JOB |= {"props": _PROPS, "jobset": 815}
_SET: Scope = {"time": 1794805200, "node": "scheduler-1", "id": 815, "props": {"author": "anna.kowalski"}}
_LOG = [
    {"time": 1794805011, "message": "Checked out release/2026.11 at 9f1c2ab", "level": 0, "tag": "git"},
    {"time": 1794805052, "message": "2,184 tests passed, 0 failed, 3 skipped", "level": 0, "tag": "test"},
    {
        "time": 1794805120,
        "message": "Migration 0042 took longer than usual",
        "level": 1,
        "tag": "db",
        "data": {"text": "ALTER TABLE orders ADD COLUMN channel\n  rows: 1,204,551\n  took: 48 s"},
    },
    {"time": 1794805199, "message": "Health checks are green on all 12 hosts", "level": 0, "tag": "deploy"},
]
_PLANNED_JOBS = [
    {"node": "build-7", "type": "build", "params": {"target": "web"}, "props": {}},
    {"node": "build-8", "type": "build", "params": {"target": "worker"}, "props": {}},
    {"node": "edge-2", "type": "deploy", "params": {"environment": "production"}, "props": {}},
]


def _job_result(number: int, state: str, **result: str) -> Scope:
    return {**_PLANNED_JOBS[number], "id": 4710 + number, "state": state, **result}


_SUCCEEDED = _job_result(0, "finished", success="1", message="Built web:2026.11.3 in 2 min")
_FAILED_JOB = _job_result(2, "finished", success="0", message="edge-2 did not come back: no answer on port 443 in 60 s")

SAMPLES: Final[dict[str, Scope]] = {
    "create": _JOB,
    "progress": _JOB
    | {"state": "deploying", "progress": "7/12", "log": _LOG[1], "data": {"text": "host edge-7: draining"}},
    "redirect": {"time": 1794805200, "node": "build-7", "id": 4711, "redirect": "build-9", "jobset": 815},
    "finish": _JOB
    | {"success": "1", "message": "release/2026.11 is live on all 12 hosts", "log": _LOG, "duration": 189},
    "clean": _JOB,
    "createJobSet": _SET | {"jobs": _PLANNED_JOBS},
    "progressJobSet": _SET | {"state": "building", "progress": "1/3"},
    "finishJobSet": _SET
    | {"jobs": [_SUCCEEDED, _job_result(1, "finished", success="1", message="Built worker:2026.11.3"), _FAILED_JOB]},
    "cleanJobSet": _SET | {"jobs": [_SUCCEEDED, _job_result(1, "running", progress="80%"), _job_result(2, "waiting")]},
}
"""Fields of each event of the job vocabulary, with all optional fields."""

JOB_TYPE: Final[Scope] = {
    "previous": "failed 2026-11-17 02:31:07 UTC: could not connect to orders-db: timeout",
    "usual_s": 185,
    "slow_s": 240,
}
"""The previous run of a job, and how long its runs take."""

FAILED: Final[Scope] = SAMPLES["finish"] | {
    "job_type": JOB_TYPE,
    "success": "0",
    "message": "Health checks failed on edge-2 & edge-5:\n<timeout> after 60 s",
    "data": {
        "text": 'Traceback (most recent call last):\n  File "deploy.py", line 88, in check\nTimeoutError: edge-2:443'
    },
}

OTHER: Final[Scope] = {
    "type": ["weather", "station", "reading"],
    "key": "station/17",
    "timestamp": "2026-11-16T04:20:00.000000Z",
    "payload": {"celsius": 3.5, "wind": {"from": "NW", "speed": 12}, "comment": "first frost"},
}
"""An event that has no template."""

DIGEST: Final[Scope] = {
    "count": 1000,
    "samples": [
        {
            "subject": f"FAILED deploy on edge-{number} (#47{number}): no answer on port 443 in 60 s",
            "link": f"https://annals.example.org/jobs/47{number}",
            "time": 1794805200 + number,
        }
        for number in range(11, 16)
    ],
    "until": 1794808800,
    "has_failures": True,
}
"""A held message about several events."""


_DAY = "2026-11-18T"
_RUN = {"job": 7001, "run": 1, "startedAt": f"{_DAY}02:31:30.000000Z"}
_EXPECTATION = {"expectation": "nightly-backup", "type": "backup", "node": "n2"}


def alarm_event(kind: str, data: Scope, at: str = f"{_DAY}02:31:40.000000Z") -> Event:
    """An alarm of the expectation `nightly-backup`."""
    members = {**_EXPECTATION, **data}
    event_type = ["job", kind, members.get("node", ""), members.get("type", "")]
    return _event(event_type, "/expectation/nightly-backup", members, at)


def failed_event(**data: Any) -> Event:
    """An event about a notification of the observer `ops` that failed."""
    known = {"observer": "ops", "channel": "mail", "event": {"server": 1, "session": 7, "instance": 1}}
    return _event(["notification", "failed", "mail", "ops"], "/observer/ops", {**known, **data}, f"{_DAY}02:31:40Z")


def _event(event_type: list[str], key: str, data: Scope, at: str) -> Event:
    at_us = timestamps.parse(at)
    payload = {"type": "json", "data": data}
    members = {"type": event_type, "key": key, "sourceTimestamp": None, "payload": payload}
    return Event(Id(1, 7, 1), at_us, at_us, to_json(members).decode(), None)


ALARM_EVENTS: Final[dict[str, Event]] = {
    "missed": alarm_event("missed", {"slot": f"{_DAY}02:00:00.000000Z", "due": f"{_DAY}02:30:00.000000Z"}),
    "late": alarm_event("late", {"slot": f"{_DAY}02:00:00.000000Z", **_RUN, "lateS": 1890.0}),
    "overdue": alarm_event("overdue", {**_RUN, "reason": "duration"}, f"{_DAY}04:41:30.000000Z"),
    "silent": alarm_event(
        "overdue",
        {**_RUN, "reason": "silence", "silentSince": f"{_DAY}04:10:30.000000Z"},
        f"{_DAY}04:41:30.000000Z",
    ),
    "early": alarm_event("early", {**_RUN, "previousStartAt": f"{_DAY}02:28:30.000000Z"}),
    "recovered": alarm_event(
        "recovered",
        {
            "since": f"{_DAY}02:30:00.000000Z",
            "alarms": ["missed", "late"],
            "job": 7001,
            "finishedAt": f"{_DAY}02:34:35.000000Z",
        },
        f"{_DAY}02:34:36.000000Z",
    ),
    "notificationFailed": failed_event(address="night@example.org", error="550 5.1.1 no such user", tries=7),
}
"""Alarms of each kind, and a notification that failed."""


def alarm_sample(event: Event) -> tuple[str, Scope]:
    """The name of the templates for an alarm, and their variables."""
    times = MessageTimes(ZoneInfo("UTC"), "%Y-%m-%d %H:%M:%S %Z")
    fields = alarm_scope(event, times)
    return template_of(event) or "", fields if "expectation" not in fields else fields | {"job_type": JOB_TYPE}


_ONLY_IN_TEMPLATES = ("log", "duration", "job_type")
"""Variables of a finished job's templates that are not in its event."""


def sample_event(name: str, fields: Scope) -> Event:
    """A stored event with these fields."""
    if name in SAMPLES:
        left_out = _ONLY_IN_TEMPLATES if name == "finish" else ()
        new = new_event({"event": name, **{key: value for key, value in fields.items() if key not in left_out}})
    else:
        payload = JsonPayload(type="json", data=fields["payload"])
        new = NewEvent(type=tuple(fields["type"]), key=fields["key"], payload=payload)
    return Event(Id(1, 7, 1), 1794805200000001, 1794805200000001, encode(new).decode())


def scope(name: str, fields: Scope, link: str = "https://annals.example.org/jobs/4711") -> Scope:
    """The variables of a template, in a channel that does not format times."""
    event: object = {"id": {"server": 1, "session": 7, "instance": 1}, "eventId": 1794805200000001, **fields}
    return {"event": name if name in SAMPLES else event, **fields, "config": {}, "job": {}, "link": link}
