"""Sequences of push-job events, and the resulting jobs (P-J)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import pytest

from chalicelib.domain.vocabularies.push.events import JobResult, RunResult, Vote
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
)
from tests.serving import Member, Server, run_server


@pytest.fixture(scope="module", name="server")
def streaming_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("patient"), **STREAMS) as running:
        yield running


@dataclass
class Case:
    """The events of a job in short form, and the final states of its nodes."""

    events: tuple[str, ...]
    count: int
    nodes: dict[str, list[str]]

    @property
    def status(self) -> str:
        return self.events[-1].split()[1]


def run_on_two_nodes(first: str, second: str) -> tuple[str, ...]:
    """The events of a job on two nodes with these results."""
    votes = ("quorum_vote n1 success", "quorum_vote n2 success", "quorum_succeeded")
    runs = ("run_start n1", "run_start n2", f"run_complete n1 {first}", f"run_complete n2 {second}")
    return ("start 2", *votes, *runs, "job_complete complete")


VOTED = ("start 1", "quorum_vote n1 success", "quorum_succeeded")
NACKED = "run_complete n1 run_nacked_while_running"
SEQUENCES = {
    "P-J01": Case(
        ("start 1", "quorum_vote n1 down", "rehab n1", "job_complete quorum_failed"), 4, {"unavailable": ["n1"]}
    ),
    "P-J02": Case(SUCCESS, 6, {"succeeded": ["n1"]}),
    "P-J03": Case((*VOTED, "run_start n1", "run_complete n1 failure", SUCCESS[-1]), 6, {"failed": ["n1"]}),
    "P-J04": Case(("start 1", "quorum_vote n1 failure", "job_complete quorum_failed"), 3, {"nacked": ["n1"]}),
    "P-J05": Case(
        ("start 1", "quorum_vote n1 voting_timeout", "job_complete quorum_failed"), 3, {"unavailable": ["n1"]}
    ),
    "P-J06": Case((*VOTED, "rehab n1", "run_complete n1 run_nacked", SUCCESS[-1]), 6, {"failed": ["n1"]}),
    "P-J08": Case((*VOTED, "run_start n1", "rehab n1", NACKED, SUCCESS[-1]), 7, {"failed": ["n1"]}),
    "P-J10": Case(run_on_two_nodes("failure", "failure"), 9, {"failed": ["n1", "n2"]}),
    "P-J11": Case(run_on_two_nodes("failure", "success"), 9, {"failed": ["n1"], "succeeded": ["n2"]}),
    "P-J14": Case(
        ("start 2", "quorum_vote n1 success", "rehab n1", "quorum_vote n2 success", "job_complete quorum_failed"),
        5,
        {"unavailable": ["n1"], "was_ready": ["n2"]},
    ),
}


@pytest.mark.parametrize("at_once", [True, False], ids=["in one commit", "one by one"])
@pytest.mark.parametrize("row", SEQUENCES)
def test_p_j_job_feed_and_resource_follow_events(row: str, at_once: bool, member: Member) -> None:
    case = SEQUENCES[row]
    if at_once:
        publish_texts(member, *case.events)
        events = job_feed(member).read_to_end()
    else:
        publish_texts(member, case.events[0])
        with job_feed(member) as feed:
            events = feed.read(1)
            for text in case.events[1:]:
                publish_texts(member, text)
                events += feed.read(1)
            assert feed.read_to_end() == []
    assert (describe(events), len(events)) == (list(case.events), case.count)
    state = job(member)
    assert (state["status"], state["nodes"], state["out_of_order"]) == (case.status, case.nodes, [])


@pytest.mark.parametrize("quorum", [None, 2, 0])
def test_p_j15_start_quorum_defaults_to_node_count(quorum: int | None, member: Member) -> None:
    publish(member, push_event("start 3", **({} if quorum is None else {"quorum": quorum})))
    with job_feed(member) as feed:
        (started,) = feed.read(1)
    expected = {**START, "node_count": 3, "quorum": 3 if quorum is None else quorum}
    assert started.data == {"timestamp": started.data["timestamp"], **expected}
    assert expected.items() <= job(member).items()


FOUR: Json = {"job_user": "u", "dir": "/d", "env": {"A": "1"}, "file_specified": True}
TWO: Json = {"job_user": "u", "env": {"A": "1"}}
OPTIONS: dict[str, tuple[Json, Json, Json]] = {
    "P-J15 none": ({}, {}, {}),
    "P-J16 user, dir, env, file": (FOUR, FOUR, FOUR),
    "P-J17 user, env": (TWO, TWO, TWO),
    "P-J18 capture": ({"capture": True}, {"capture": True}, {"capture_output": True}),
    "P-J18 no capture": ({"capture": False}, {"capture": False}, {}),
    "null equals absent": (dict.fromkeys(("job_user", "dir", "env", "file_specified", "capture")), {}, {}),
}


@pytest.mark.parametrize("row", OPTIONS)
def test_p_j16_p_j17_p_j18_start_has_only_given_options(row: str, member: Member) -> None:
    options, in_start, in_resource = OPTIONS[row]
    publish(member, push_event("start 1", **options))
    with job_feed(member) as feed:
        (started,) = feed.read(1)
    common = {**START, "quorum": 1}
    at = started.data["timestamp"]
    assert started.data == {"timestamp": at, **common, **in_start}
    times = {"timestamp": at, "created_at": at, "updated_at": at}
    assert job(member) == {
        **times, "id": "j1", **common, "status": "voting", "nodes": {}, "out_of_order": [], **in_resource
    }  # fmt: skip


VOTES = {
    "success": "ready",
    "failure": "nacked",
    "down": "unavailable",
    "voting_timeout": "unavailable",
    "unexpected_commit": "unavailable",
    "lost_availibility": "unavailable",
    "client_died_while_voting": "unavailable",
}
RUNS = {
    "success": "succeeded",
    "failure": "failed",
    "crashed": "crashed",
    "run_nacked": "failed",
    "run_nacked_while_running": "failed",
    "client_died_while_running": "crashed",
}
ENDS = {
    "complete": {"ready": ["n1"], "running": ["n2"], "failed": ["n3"]},
    "quorum_failed": {"was_ready": ["n1"], "running": ["n2"], "failed": ["n3"]},
    "timed_out": {"timed_out": ["n1", "n2"], "failed": ["n3"]},
    "crashed": {"crashed": ["n1", "n2"], "failed": ["n3"]},
    "aborted": {"aborted": ["n1", "n2"], "failed": ["n3"]},
}


def test_tables_cover_every_status() -> None:
    statuses = [set(get_args(statuses)) for statuses in (Vote, RunResult, JobResult)]
    assert [set(table) for table in (VOTES, RUNS, ENDS)] == statuses


@pytest.mark.parametrize("status", VOTES)
def test_vote_sets_node_state(status: str, member: Member) -> None:
    publish_texts(member, "start 1", f"quorum_vote n1 {status}")
    state = job(member)
    assert (state["status"], state["nodes"], state["out_of_order"]) == ("voting", {VOTES[status]: ["n1"]}, [])
    with job_feed(member) as feed:
        assert describe(feed.read(2))[1] == f"quorum_vote n1 {status}"


@pytest.mark.parametrize("status", RUNS)
def test_run_result_sets_node_state(status: str, member: Member) -> None:
    publish_texts(member, *SUCCESS[:4], f"run_complete n1 {status}")
    state = job(member)
    assert (state["status"], state["nodes"], state["out_of_order"]) == ("running", {RUNS[status]: ["n1"]}, [])
    publish_texts(member, SUCCESS[-1])
    assert describe(job_feed(member).read_to_end())[4:] == [f"run_complete n1 {status}", "job_complete complete"]


@pytest.mark.parametrize("status", ENDS)
def test_job_result_sets_final_node_states(status: str, member: Member) -> None:
    votes = [f"quorum_vote n{n} success" for n in (1, 2, 3)]
    runs = ["run_start n2", "run_start n3", "run_complete n3 failure"]
    publish_texts(member, "start 3", *votes, "quorum_succeeded", *runs, f"job_complete {status}")
    state = job(member)
    assert (state["status"], state["nodes"]) == (status, ENDS[status])
    with organization_feed(member, after=0) as feed:
        assert describe(feed.read(2)) == ["start j1 3", f"job_complete j1 {status}"]


def test_job_status_follows_events(member: Member) -> None:
    states = []
    for text in ("rehab n2", *SUCCESS):
        publish_texts(member, text)
        state = job(member)
        states.append((state["status"], state["nodes"]))
    assert states == [
        ("new", {"unavailable": ["n2"]}),
        ("voting", {"unavailable": ["n2"]}),
        ("voting", {"unavailable": ["n2"], "ready": ["n1"]}),
        ("running", {"unavailable": ["n2"], "ready": ["n1"]}),
        ("running", {"unavailable": ["n2"], "running": ["n1"]}),
        ("running", {"unavailable": ["n2"], "succeeded": ["n1"]}),
        ("complete", {"unavailable": ["n2"], "succeeded": ["n1"]}),
    ]


@pytest.mark.parametrize("name", ["117", "ü 日本", "a%2Fb", "a.b,c;d=e", "'\"<&>", "-", "~", "j" * 200])
def test_job_id_may_contain_special_characters(name: str, member: Member) -> None:
    publish_texts(member, *SUCCESS, job=name)
    assert job(member, name)["id"] == name
    assert describe(job_feed(member, name).read_to_end()) == list(SUCCESS)
    with organization_feed(member, after=0) as feed:
        assert [event.data["job"] for event in feed.read(2)] == [name, name]


def test_job_is_available_as_object(member: Member) -> None:
    *_, last = publish_texts(member, *SUCCESS)
    expected = {"eventId": last, **job(member)}
    assert member.get("/objects/pushJob/j1").json() == member.get("/objects/pushJob/push/j1").json() == expected
    publish_texts(member, "start 1", job="j2")
    elements = member.get("/objects/pushJob").json()["elements"]
    assert [element["id"] for element in elements] == ["j1", "j2"]
    assert member.get("/objects/pushJob/j3").status_code == 404


def test_job_list_is_newest_first_without_nodes(member: Member) -> None:
    for name in ("b", "c", "a"):
        publish_texts(member, "start 1", "quorum_vote n1 success", job=name)
    publish_texts(member, "job_complete aborted", job="b")
    listed = member.get(push_path(member, "jobs")).json()
    jobs = [job(member, name) for name in ("a", "c", "b")]
    assert listed == [{name: value for name, value in resource.items() if name != "nodes"} for resource in jobs]
    assert member.get(push_path(member, "jobs"), params={"limit": 2}).json() == listed[:2]


def test_single_event_with_idempotency_key_is_written_once(member: Member) -> None:
    key = {"Idempotency-Key": "k"}
    answers = [member.request("POST", "/events/push", json=push_event("start 1"), headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json() == answers[1].json()
    (event,) = answers[0].json()["events"]
    assert (event["type"], event["key"]) == (["push", "start"], "/push/j1")
    assert event["payload"] == {"type": "json", "data": {**START, "quorum": 1}}
    assert job(member)["out_of_order"] == []
