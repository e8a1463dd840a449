"""Push-job events that are out of order, many, or invalid core events."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.push.push_client import (
    START,
    STREAMS,
    SUCCESS,
    Json,
    describe,
    job,
    job_feed,
    organization_feed,
    publish,
    publish_texts,
    push_event,
    push_path,
    wait,
)
from tests.serving import Member, Server, run_server

NODES = 300


@pytest.fixture(scope="module", name="server")
def streaming_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("patient"), **STREAMS) as running:
        yield running


@pytest.fixture(scope="module")
def summary_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that shows summaries immediately."""
    with run_server(tmp_path_factory.mktemp("summary_server"), WAIT_COMPLETE_TIME="0.1") as running:
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
    "a run without a quorum": ((*SUCCESS[:2], "run_start n1"), ["quorum_succeeded has not been received"], "running"),
    "a result without a quorum": (
        (*SUCCESS[:2], "run_complete n1 success"), ["quorum_succeeded has not been received"], "running"
    ),
    "a quorum that failed late": ((*RUN, "job_complete quorum_failed"), ["the quorum has succeeded"], "quorum_failed"),
    "complete without a quorum": (
        (*SUCCESS[:2], "job_complete complete"), ["quorum_succeeded has not been received"], "complete"
    ),
    "timed out without a quorum": (
        (*SUCCESS[:2], "job_complete timed_out"), ["quorum_succeeded has not been received"], "timed_out"
    ),
    "complete too early": ((*RUNNING, "job_complete complete"), ["1 nodes have not completed"], "complete"),
    "a second vote": ((*SUCCESS[:2], "quorum_vote n1 failure"), ["the node has voted before"], "voting"),
    "a vote after a refusal": (
        ("start 1", "quorum_vote n1 failure", "quorum_vote n1 success"), ["the node has voted before"], "voting"
    ),
    "too few nodes are ready": (("start 2", *SUCCESS[1:3]), ["1 nodes are ready, not 2"], "running"),
    "a run of a node that did not vote": ((*SUCCESS[:3], "run_start n2"), ["the node is not ready"], "running"),
    "a second run": ((*RUNNING, "run_start n1"), ["the node is running"], "running"),
    "a run after the result": ((*RUN, "run_start n1"), ["the node is succeeded"], "running"),
    "a result without a run": (
        (*SUCCESS[:3], "run_complete n1 success"), ["the node has not started to run"], "running"
    ),
    "a failure of a node that did not vote": (
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
def test_out_of_order_event_is_reported_on_job(name: str, member: Member) -> None:
    events, reasons, status = OUT_OF_ORDER[name]
    ids = publish_texts(member, *events)
    state = job(member)
    late = zip(events[-len(reasons) :], ids[-len(reasons) :], reasons, strict=True)
    assert state["out_of_order"] == [report(text, event_id, reason) for text, event_id, reason in late]
    assert state["status"] == status
    assert member.get("/objects/pushJob/j1").json()["out_of_order"] == state["out_of_order"]


def report(text: str, event_id: int, reason: str) -> Json:
    """The report of an out-of-order event."""
    node = {"node": push_event(text)["node"]} if "node" in push_event(text) else {}
    return {"event": text.split(maxsplit=1)[0], **node, "id": f"job-{event_id}", "reason": reason}


@pytest.mark.parametrize("name", IN_ORDER)
def test_in_order_event_is_not_reported(name: str, member: Member) -> None:
    publish_texts(member, *IN_ORDER[name])
    assert job(member)["out_of_order"] == []


def test_out_of_order_event_is_on_feed(member: Member) -> None:
    events = ("run_complete n1 success", "quorum_vote n1 success", "start 1", "run_start n1", "job_complete complete")
    publish_texts(member, *events, "rehab n1")
    assert describe(job_feed(member).read_to_end()) == list(events)
    reported = [report["event"] for report in job(member)["out_of_order"]]
    assert reported == ["run_complete", "quorum_vote", "job_complete", "rehab"]


def test_event_after_end_does_not_change_job(member: Member) -> None:
    publish_texts(member, *SUCCESS)
    before = job(member)
    publish_texts(member, "start 9", "run_complete n1 failure", "quorum_vote n2 success", "job_complete aborted")
    after = job(member)
    assert (len(after.pop("out_of_order")), before.pop("out_of_order")) == (4, [])
    assert after == before


def large_job(status: str) -> list[list[Json]]:
    """The events of a job with hundreds of nodes, in several requests. Every second node ends with `status`."""
    names = [f"node-{n:03d}.example.com" for n in range(NODES)]
    results = [f"run_complete {name} {status if n % 2 else 'success'}" for n, name in enumerate(names)]
    votes = [push_event(f"quorum_vote {name} success") for name in names]
    starts = [push_event(f"run_start {name}") for name in names]
    return [
        [push_event(f"start {NODES}"), *votes, push_event("quorum_succeeded")],
        starts,
        [push_event(text) for text in results],
    ]


def test_large_job_resource_has_all_nodes(summary_server: Server) -> None:
    member = summary_server.organization()
    for events in large_job("failure"):
        publish(member, *events)
    publish(member, push_event("job_complete complete"))
    names = [f"node-{n:03d}.example.com" for n in range(NODES)]
    expected = {"succeeded": names[::2], "failed": names[1::2]}
    for _ in range(2):  # immediately, and when the views are up to date
        state = job(member)
        assert (state["nodes"], state["status"], state["out_of_order"]) == (expected, "complete", [])
        assert state.items() <= member.get("/objects/pushJob/j1").json().items()
        wait(member, 1.0)
        (summary,) = job_feed(member).read_to_end()
        assert (summary.name, summary.data) == ("summary", state)
    (listed,) = member.get("/objects/pushJob").json()["elements"]
    assert listed == {**state, "nodes": None, "has_failed_nodes": True}


def test_large_job_feed_has_all_events(member: Member) -> None:
    published = [event for events in large_job("success") for event in events]
    publish(member, *published, push_event("job_complete complete"))
    events = job_feed(member).read_to_end()
    assert len(events) == 3 * NODES + 3
    assert [event.data.get("node") for event in events] == [event.get("node") for event in [*published, {}]]


INVALID_EVENTS: dict[str, tuple[list[str], str | None, Any]] = {
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
    "a quorum with another subtype": (["push", "quorum_succeeded", "more"], "/push/j1", None),
    "only the first subtype": (["push"], "/push/j1", None),
}


def core_event(type_: list[str], key: str | None, data: Any) -> Json:
    payload = {} if data is None else {"payload": {"type": "json", "data": data}}
    return {"type": type_, **({} if key is None else {"key": key}), **payload}


@pytest.mark.parametrize("name", INVALID_EVENTS)
def test_invalid_core_event_is_ignored(name: str, member: Member) -> None:
    assert member.post({"events": [core_event(*INVALID_EVENTS[name])]}).status_code == 201
    assert member.get(push_path(member, "jobs", "j1")).status_code == 404
    assert member.get(push_path(member, "jobs")).json() == []
    publish_texts(member, *SUCCESS[:3])
    assert member.post({"events": [core_event(*INVALID_EVENTS[name])]}).status_code == 201
    publish_texts(member, *SUCCESS[3:])
    assert describe(job_feed(member).read_to_end()) == list(SUCCESS)
    with organization_feed(member, after=0) as feed:
        assert describe(feed.read(2)) == ["start j1 1", "job_complete j1 complete"]
    state = job(member)
    assert (state["status"], state["nodes"], state["out_of_order"]) == ("complete", {"succeeded": ["n1"]}, [])
    assert len(member.read_log()["events"]) == len(SUCCESS) + 2


def test_valid_core_event_is_accepted(member: Member) -> None:
    core = core_event(["push", "start"], "/push/j1", {**START, "quorum": 1})
    assert (
        member.post({"events": [core, core_event(["push", "quorum_succeeded"], "/push/j1", None)]}).status_code == 201
    )
    with job_feed(member) as feed:
        assert describe(feed.read(2)) == ["start 1", "quorum_succeeded"]


def test_binary_payload_is_ignored(member: Member) -> None:
    payload = {"type": "binary", "name": "json", "data": "e30="}
    event = {"type": ["push", "quorum_succeeded"], "key": "/push/j1", "payload": payload}
    assert member.post({"events": [event]}).status_code == 201
    assert member.get(push_path(member, "jobs", "j1")).status_code == 404
