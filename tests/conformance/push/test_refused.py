"""Invalid push-job events are rejected, and nothing is written."""

import json

import httpx
import pytest

from tests.conformance.push.push_client import Json, post, push_event, push_path
from tests.serving import Member


def problem(answer: httpx.Response, status: int = 400) -> Json:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    body: Json = answer.json()
    assert body["status"] == status
    return body


REQUIRED = [
    (text, missing)
    for text in (
        "start 1",
        "quorum_vote n1 success",
        "quorum_succeeded",
        "run_start n1",
        "run_complete n1 success",
        "job_complete complete",
        "rehab n1",
    )
    for missing in push_event(text)
]
INVALID: dict[str, object] = {
    **{f"{text} without {missing}": {**push_event(text), missing: ...} for text, missing in REQUIRED},
    **{f"{text} with a file": {**push_event(text), "file": "x"} for text, missing in REQUIRED if missing == "job"},
    **{f"job {job!r}": push_event("quorum_succeeded", job=job)
       for job in ("", "a/b", "/", "a?", "*", "|", "\n", "j" * 201)},
    **{f"node {node!r}": push_event("rehab n1", node=node) for node in ("", "n" * 201, None, 7)},
    **{f"{name} {value}": push_event("start 1", **{name: value}) for name in ("node_count", "run_timeout", "quorum")
       for value in (-1, 1.5, 2**53, True, "many")},
    **{f"{name} {value!r}": push_event("start 1", **{name: value}) for name in ("file_specified", "capture")
       for value in (0, 1, "true", "yes")},
    **{f"env {env}": push_event("start 1", env=env) for env in ({"A": 1}, ["A"], "A=1")},
    "an unknown event": {"event": "stop", "job": "j1"},
    "an event that only feeds have": {"event": "start_of_history", "job": "j1"},
    "an unknown vote": push_event("quorum_vote n1 maybe"),
    "a vote with a run result": push_event("quorum_vote n1 crashed"),
    "an unknown result of a run": push_event("run_complete n1 complete"),
    "an unknown result of a job": push_event("job_complete success"),
    "a job that is a number": push_event("quorum_succeeded") | {"job": 117},
    "an empty command": push_event("start 1", command=""),
    "a start too large": push_event("start 1", command="x" * 8000),
    "an environment too large": push_event("start 1", env={str(n): "x" * 90 for n in range(90)}),
    "a core event": {"type": ["push", "start"], "key": "/push/j1"},
    "an event with a timestamp": push_event("quorum_succeeded") | {"timestamp": "2014-07-10 05:17:44.995958Z"},
    "nothing": {},
    "null": None,
    "a list": [push_event("start 1")],
    "a text": "start",
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_event_is_rejected_and_nothing_is_written(name: str, member: Member) -> None:
    event = INVALID[name]
    if isinstance(event, dict):
        event = {field: value for field, value in event.items() if value is not ...}
    problem(post(member, event))
    problem(post(member, {"events": [push_event("start 1"), event, push_event("job_complete complete")]}))
    assert member.read_log()["events"] == []
    assert member.get(push_path(member, "jobs")).json() == []


def test_invalid_event_error_names_field_and_rule(member: Member) -> None:
    body = {"events": [push_event("start 1"), push_event("rehab n1", file="x")]}
    assert problem(post(member, body))["detail"] == "events.1.rehab.file: unknown field"


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"\xff", "application/json", 400),
        (json.dumps(push_event("start 1")).encode(), "text/plain", 415),
    ],
)
def test_invalid_body_is_rejected(content: bytes, content_type: str, status: int, member: Member) -> None:
    problem(member.request("POST", "/events/push", content=content, headers={"Content-Type": content_type}), status)
    assert member.read_log()["events"] == []
