"""Facts about push jobs that come out of order, by the hundred, or under a false name: taken, told, harmless."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.push.push_client import (
    START,
    STREAMS,
    SUCCESS,
    Json,
    fact,
    happen,
    job,
    job_feed,
    organization_feed,
    pause,
    publish,
    pushy,
    told,
)
from tests.serving import Member, Server, serving

NODES = 300


@pytest.fixture(scope="module", name="server")
def patient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("patient"), **STREAMS) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that shows summaries at once."""
    with serving(tmp_path_factory.mktemp("hasty"), WAIT_COMPLETE_TIME="0.1") as running:
        yield running


RUNNING = SUCCESS[:4]
RUN = SUCCESS[:5]
OUT_OF_ORDER: dict[str, tuple[tuple[str, ...], list[str], str]] = {
    "the job is over": (
        (*SUCCESS, "rehab n1", "start 1", "quorum_vote n2 success", "job_complete aborted"),
        ["the job is over: complete"] * 4,
        "complete",
    ),
    "started twice": (("start 1", "start 7"), ["the job has started before"], "voting"),
    "not started": (("quorum_vote n1 success",), ["the job has not started"], "voting"),
    "ended without a start": (("job_complete crashed",), ["the job has not started"], "crashed"),
    "a vote too late": ((*SUCCESS[:3], "quorum_vote n2 success"), ["the vote is over"], "running"),
    "a second quorum": ((*SUCCESS[:3], "quorum_succeeded"), ["the vote is over"], "running"),
    "a run without a quorum": ((*SUCCESS[:2], "run_start n1"), ["quorum_succeeded has not come"], "running"),
    "a result without a quorum": (
        (*SUCCESS[:2], "run_complete n1 success"), ["quorum_succeeded has not come"], "running"
    ),
    "a quorum that failed late": ((*RUN, "job_complete quorum_failed"), ["the quorum has succeeded"], "quorum_failed"),
    "complete without a quorum": (
        (*SUCCESS[:2], "job_complete complete"), ["quorum_succeeded has not come"], "complete"
    ),
    "timed out without a quorum": (
        (*SUCCESS[:2], "job_complete timed_out"), ["quorum_succeeded has not come"], "timed_out"
    ),
    "complete too early": ((*RUNNING, "job_complete complete"), ["1 nodes have not completed"], "complete"),
    "a second vote": ((*SUCCESS[:2], "quorum_vote n1 failure"), ["the node has voted before"], "voting"),
    "a vote after a refusal": (
        ("start 1", "quorum_vote n1 failure", "quorum_vote n1 success"), ["the node has voted before"], "voting"
    ),
    "too few are ready": (("start 2", *SUCCESS[1:3]), ["1 nodes are ready, not 2"], "running"),
    "a run of who did not vote": ((*SUCCESS[:3], "run_start n2"), ["the node is not ready"], "running"),
    "a second run": ((*RUNNING, "run_start n1"), ["the node is running"], "running"),
    "a run after the result": ((*RUN, "run_start n1"), ["the node is succeeded"], "running"),
    "a result without a run": (
        (*SUCCESS[:3], "run_complete n1 success"), ["the node has not started to run"], "running"
    ),
    "a failure of who did not vote": (
        (*SUCCESS[:3], "run_complete n2 failure"), ["the node has not started to run"], "running"
    ),
    "a second result": ((*RUN, "run_complete n1 failure"), ["the node is succeeded"], "running"),
}  # fmt: skip
IN_ORDER: dict[str, tuple[str, ...]] = {
    "rehab at any time": ("start 1", "rehab n1", "quorum_vote n2 success", "quorum_succeeded", "rehab n2"),
    "lost after a vote": (*SUCCESS[:2], "quorum_vote n1 lost_availibility", "job_complete quorum_failed"),
    "down after a vote": (*SUCCESS[:2], "quorum_vote n1 down", "job_complete quorum_failed"),
    "died after a vote": (*SUCCESS[:2], "quorum_vote n1 client_died_while_voting"),
    "an unexpected commit after a vote": (*SUCCESS[:2], "quorum_vote n1 unexpected_commit"),
    "crashed before its run": (*SUCCESS[:3], "run_complete n1 crashed"),
    "died before its run": (*SUCCESS[:3], "run_complete n1 client_died_while_running"),
    "died after its run": (*RUN, "run_complete n1 client_died_while_running"),
    "aborted while it votes": (*SUCCESS[:2], "job_complete aborted"),
    "crashed while it votes": (*SUCCESS[:2], "job_complete crashed"),
    "timed out while it runs": (*RUNNING, "job_complete timed_out"),
    "aborted while it runs": (*RUNNING, "job_complete aborted"),
    "without any nodes": ("start 0", "quorum_succeeded", "job_complete complete"),
}


@pytest.mark.parametrize("name", OUT_OF_ORDER)
def test_what_comes_out_of_order_is_taken_and_reported_on_the_job(name: str, member: Member) -> None:
    events, reasons, status = OUT_OF_ORDER[name]
    ids = happen(member, *events)
    found = job(member)
    late = zip(events[-len(reasons) :], ids[-len(reasons) :], reasons, strict=True)
    assert found["out_of_order"] == [report(text, event_id, reason) for text, event_id, reason in late]
    assert found["status"] == status
    assert member.get("/objects/pushJob/j1").json()["out_of_order"] == found["out_of_order"]


def report(text: str, event_id: int, reason: str) -> Json:
    """How an event is reported."""
    node = {"node": fact(text)["node"]} if "node" in fact(text) else {}
    return {"event": text.split(maxsplit=1)[0], **node, "id": f"job-{event_id}", "reason": reason}


@pytest.mark.parametrize("name", IN_ORDER)
def test_what_may_come_at_any_time_is_not_reported(name: str, member: Member) -> None:
    happen(member, *IN_ORDER[name])
    assert job(member)["out_of_order"] == []


def test_what_came_out_of_order_is_on_the_feed_all_the_same(member: Member) -> None:
    events = ("run_complete n1 success", "quorum_vote n1 success", "start 1", "run_start n1", "job_complete complete")
    happen(member, *events, "rehab n1")
    assert told(job_feed(member).rest()) == list(events)
    reported = [report["event"] for report in job(member)["out_of_order"]]
    assert reported == ["run_complete", "quorum_vote", "job_complete", "rehab"]


def test_nothing_that_comes_after_its_end_changes_a_job(member: Member) -> None:
    happen(member, *SUCCESS)
    before = job(member)
    happen(member, "start 9", "run_complete n1 failure", "quorum_vote n2 success", "job_complete aborted")
    after = job(member)
    assert (len(after.pop("out_of_order")), before.pop("out_of_order")) == (4, [])
    assert after == before


def many(word: str) -> list[list[Json]]:
    """A job with hundreds of nodes, in some requests; those with odd numbers end with `word`."""
    names = [f"node-{n:03d}.example.com" for n in range(NODES)]
    results = [f"run_complete {name} {word if n % 2 else 'success'}" for n, name in enumerate(names)]
    votes = [fact(f"quorum_vote {name} success") for name in names]
    starts = [fact(f"run_start {name}") for name in names]
    return [
        [fact(f"start {NODES}"), *votes, fact("quorum_succeeded")],
        starts,
        [fact(text) for text in results],
    ]


def test_a_job_with_hundreds_of_nodes_is_complete(hasty: Server) -> None:
    member = hasty.organization()
    for facts in many("failure"):
        publish(member, *facts)
    publish(member, fact("job_complete complete"))
    names = [f"node-{n:03d}.example.com" for n in range(NODES)]
    expected = {"succeeded": names[::2], "failed": names[1::2]}
    for _ in range(2):  # at once, and when the views are up to date
        found = job(member)
        assert (found["nodes"], found["status"], found["out_of_order"]) == (expected, "complete", [])
        assert found.items() <= member.get("/objects/pushJob/j1").json().items()
        pause(member, 1.0)
        (summary,) = job_feed(member).rest()
        assert (summary.name, summary.data) == ("summary", found)
    (listed,) = member.get("/objects/pushJob").json()["elements"]
    assert listed == {**found, "nodes": None}


def test_the_feed_of_a_job_with_hundreds_of_nodes_is_complete(member: Member) -> None:
    facts = [fact for facts in many("success") for fact in facts]
    publish(member, *facts, fact("job_complete complete"))
    events = job_feed(member).rest()
    assert len(events) == 3 * NODES + 3
    assert [event.data.get("node") for event in events] == [given.get("node") for given in [*facts, {}]]


RAW: dict[str, tuple[list[str], str | None, Any]] = {
    "an unknown event": (["push", "stop"], "/push/j1", {}),
    "a start without fields": (["push", "start"], "/push/j1", None),
    "a start with a file": (["push", "start"], "/push/j1", {**START, "file": "x"}),
    "a start of another job": (["push", "start"], "/push/j1", {**START, "job": "j2"}),
    "a start that is another event": (["push", "start"], "/push/j1", {**START, "event": "rehab"}),
    "a start too large": (["push", "start"], "/push/j1", {**START, "command": "x" * 8000}),
    "a start without a key": (["push", "start"], None, START),
    "a start of a folder": (["push", "start"], "/push/", START),
    "a start in a folder": (["push", "start"], "/push/j1/x", START),
    "a start elsewhere": (["push", "start"], "/j1", START),
    "an end with an unknown status": (["push", "job_complete"], "/push/j1", {"status": "success"}),
    "an end that is a number": (["push", "job_complete"], "/push/j1", 7),
    "an end that is a list": (["push", "job_complete"], "/push/j1", ["status", "complete"]),
    "a quorum with more to say": (["push", "quorum_succeeded", "more"], "/push/j1", None),
    "nothing but the vocabulary": (["push"], "/push/j1", None),
}


def raw(type_: list[str], key: str | None, data: Any) -> Json:
    """A core event."""
    payload = {} if data is None else {"payload": {"type": "json", "data": data}}
    return {"type": type_, **({} if key is None else {"key": key}), **payload}


@pytest.mark.parametrize("name", RAW)
def test_a_core_event_that_only_looks_like_a_push_event_harms_nothing(name: str, member: Member) -> None:
    assert member.post({"events": [raw(*RAW[name])]}).status_code == 201
    assert member.get(pushy(member, "jobs", "j1")).status_code == 404
    assert member.get(pushy(member, "jobs")).json() == []
    happen(member, *SUCCESS[:3])
    assert member.post({"events": [raw(*RAW[name])]}).status_code == 201
    happen(member, *SUCCESS[3:])
    assert told(job_feed(member).rest()) == list(SUCCESS)
    with organization_feed(member, after=0) as feed:
        assert told(feed.take(2)) == ["start j1 1", "job_complete j1 complete"]
    found = job(member)
    assert (found["status"], found["nodes"], found["out_of_order"]) == ("complete", {"succeeded": ["n1"]}, [])
    assert len(member.stored()["events"]) == len(SUCCESS) + 2


def test_a_core_event_that_follows_the_vocabulary_is_as_good_as_any(member: Member) -> None:
    core = raw(["push", "start"], "/push/j1", {**START, "quorum": 1})
    assert member.post({"events": [core, raw(["push", "quorum_succeeded"], "/push/j1", None)]}).status_code == 201
    with job_feed(member) as feed:
        assert told(feed.take(2)) == ["start 1", "quorum_succeeded"]


def test_a_binary_payload_is_no_push_event(member: Member) -> None:
    payload = {"type": "binary", "name": "json", "data": "e30="}
    event = {"type": ["push", "quorum_succeeded"], "key": "/push/j1", "payload": payload}
    assert member.post({"events": [event]}).status_code == 201
    assert member.get(pushy(member, "jobs", "j1")).status_code == 404
