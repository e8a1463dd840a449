"""What is refused under the name of push jobs, and leaves no trace."""

import json

import httpx
import pytest

from tests.conformance.push.push_client import Json, fact, post, pushy
from tests.serving import Member


def refusal(answer: httpx.Response, status: int = 400) -> Json:
    """What a refusal says."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    found: Json = answer.json()
    assert found["status"] == status
    return found


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
    for missing in fact(text)
]
BAD: dict[str, object] = {
    **{f"{text} without {missing}": {**fact(text), missing: ...} for text, missing in REQUIRED},
    **{f"{text} with a file": {**fact(text), "file": "x"} for text, missing in REQUIRED if missing == "job"},
    **{f"job {job!r}": fact("quorum_succeeded", job=job) for job in ("", "a/b", "/", "a?", "*", "|", "\n", "j" * 201)},
    **{f"node {node!r}": fact("rehab n1", node=node) for node in ("", "n" * 201, None, 7)},
    **{f"{name} {value}": fact("start 1", **{name: value}) for name in ("node_count", "run_timeout", "quorum")
       for value in (-1, 1.5, 2**53, True, "many")},
    **{f"{name} {value!r}": fact("start 1", **{name: value}) for name in ("file_specified", "capture")
       for value in (0, 1, "true", "yes")},
    **{f"env {env}": fact("start 1", env=env) for env in ({"A": 1}, ["A"], "A=1")},
    "an unknown event": {"event": "stop", "job": "j1"},
    "an event of the feed alone": {"event": "start_of_history", "job": "j1"},
    "an unknown vote": fact("quorum_vote n1 maybe"),
    "a vote that is a run's": fact("quorum_vote n1 crashed"),
    "an unknown result of a run": fact("run_complete n1 complete"),
    "an unknown result of a job": fact("job_complete success"),
    "a job that is a number": fact("quorum_succeeded") | {"job": 117},
    "an empty command": fact("start 1", command=""),
    "a start too large": fact("start 1", command="x" * 8000),
    "an environment too large": fact("start 1", env={str(n): "x" * 90 for n in range(90)}),
    "a core event": {"type": ["push", "start"], "key": "/push/j1"},
    "a time of its own": fact("quorum_succeeded") | {"timestamp": "2014-07-10 05:17:44.995958Z"},
    "nothing": {},
    "null": None,
    "a list": [fact("start 1")],
    "a text": "start",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_follow_the_vocabulary_is_refused_and_nothing_is_written(name: str, member: Member) -> None:
    bad = BAD[name]
    if isinstance(bad, dict):
        bad = {field: value for field, value in bad.items() if value is not ...}
    refusal(post(member, bad))
    refusal(post(member, {"events": [fact("start 1"), bad, fact("job_complete complete")]}))
    assert member.stored()["events"] == []
    assert member.get(pushy(member, "jobs")).json() == []


def test_the_refusal_says_where_and_what(member: Member) -> None:
    body = {"events": [fact("start 1"), fact("rehab n1", file="x")]}
    assert refusal(post(member, body))["detail"] == "events.1.rehab.file: unknown field"


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"\xff", "application/json", 400),
        (json.dumps(fact("start 1")).encode(), "text/plain", 415),
    ],
)
def test_bodies_that_are_no_json_are_refused(content: bytes, content_type: str, status: int, member: Member) -> None:
    refusal(member.ask("POST", "/events/push", content=content, headers={"Content-Type": content_type}), status)
    assert member.stored()["events"] == []
