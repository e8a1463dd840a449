"""Sample events for previews and tests of message templates."""

from typing import Any, Final

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

FAILED: Final[Scope] = SAMPLES["finish"] | {
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


def scope(name: str, fields: Scope, link: str = "https://annals.example.org/jobs/4711") -> Scope:
    """The variables of a template, in a channel that does not format times."""
    event: object = {"id": {"server": 1, "session": 7, "instance": 1}, "eventId": 1794805200000001, **fields}
    return {"event": name if name in SAMPLES else event, **fields, "config": {}, "job": {}, "link": link}
