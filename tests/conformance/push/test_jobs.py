"""What happens to push jobs: the sequences of their events, and what these make of a job (P-J)."""

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
    fact,
    happen,
    job,
    job_feed,
    organization_feed,
    publish,
    pushy,
    told,
)
from tests.serving import Member, Server, serving


@pytest.fixture(scope="module", name="server")
def patient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("patient"), **STREAMS) as running:
        yield running


@dataclass
class Case:
    """What happens to a job, how it ends, and where its nodes are then."""

    events: tuple[str, ...]
    count: int
    nodes: dict[str, list[str]]

    @property
    def status(self) -> str:
        """How it ends."""
        return self.events[-1].split()[1]


def two_nodes(first: str, second: str) -> tuple[str, ...]:
    """What happens to a job that runs on two nodes, with these results."""
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
    "P-J10": Case(two_nodes("failure", "failure"), 9, {"failed": ["n1", "n2"]}),
    "P-J11": Case(two_nodes("failure", "success"), 9, {"failed": ["n1"], "succeeded": ["n2"]}),
    "P-J14": Case(
        ("start 2", "quorum_vote n1 success", "rehab n1", "quorum_vote n2 success", "job_complete quorum_failed"),
        5,
        {"unavailable": ["n1"], "was_ready": ["n2"]},
    ),
}


@pytest.mark.parametrize("at_once", [True, False], ids=["in one commit", "one by one"])
@pytest.mark.parametrize("row", SEQUENCES)
def test_p_j_a_job_is_told_as_it_happens(row: str, at_once: bool, member: Member) -> None:
    case = SEQUENCES[row]
    if at_once:
        happen(member, *case.events)
        events = job_feed(member).rest()
    else:
        happen(member, case.events[0])
        with job_feed(member) as feed:
            events = feed.take(1)
            for text in case.events[1:]:
                happen(member, text)
                events += feed.take(1)
            assert feed.rest() == []
    assert (told(events), len(events)) == (list(case.events), case.count)
    found = job(member)
    assert (found["status"], found["nodes"], found["out_of_order"]) == (case.status, case.nodes, [])


@pytest.mark.parametrize("quorum", [None, 2, 0])
def test_p_j15_a_start_tells_its_fields_and_the_quorum_is_all_nodes_by_default(
    quorum: int | None, member: Member
) -> None:
    publish(member, fact("start 3", **({} if quorum is None else {"quorum": quorum})))
    with job_feed(member) as feed:
        (started,) = feed.take(1)
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
    "null is as good as absent": (dict.fromkeys(("job_user", "dir", "env", "file_specified", "capture")), {}, {}),
}


@pytest.mark.parametrize("row", OPTIONS)
def test_p_j16_p_j17_p_j18_a_start_tells_what_was_asked_for_and_nothing_else(row: str, member: Member) -> None:
    given, in_start, in_resource = OPTIONS[row]
    publish(member, fact("start 1", **given))
    with job_feed(member) as feed:
        (started,) = feed.take(1)
    always = {**START, "quorum": 1}
    at = started.data["timestamp"]
    assert started.data == {"timestamp": at, **always, **in_start}
    times = {"timestamp": at, "created_at": at, "updated_at": at}
    assert job(member) == {
        **times, "id": "j1", **always, "status": "voting", "nodes": {}, "out_of_order": [], **in_resource
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


def test_the_tables_here_know_every_word() -> None:
    words = [set(get_args(words)) for words in (Vote, RunResult, JobResult)]
    assert [set(table) for table in (VOTES, RUNS, ENDS)] == words


@pytest.mark.parametrize("word", VOTES)
def test_every_vote_puts_its_node_where_it_belongs(word: str, member: Member) -> None:
    happen(member, "start 1", f"quorum_vote n1 {word}")
    found = job(member)
    assert (found["status"], found["nodes"], found["out_of_order"]) == ("voting", {VOTES[word]: ["n1"]}, [])
    with job_feed(member) as feed:
        assert told(feed.take(2))[1] == f"quorum_vote n1 {word}"


@pytest.mark.parametrize("word", RUNS)
def test_every_end_of_a_run_puts_its_node_where_it_belongs(word: str, member: Member) -> None:
    happen(member, *SUCCESS[:4], f"run_complete n1 {word}")
    found = job(member)
    assert (found["status"], found["nodes"], found["out_of_order"]) == ("running", {RUNS[word]: ["n1"]}, [])
    happen(member, SUCCESS[-1])
    assert told(job_feed(member).rest())[4:] == [f"run_complete n1 {word}", "job_complete complete"]


@pytest.mark.parametrize("word", ENDS)
def test_every_end_of_a_job_leaves_its_nodes_where_they_belong(word: str, member: Member) -> None:
    votes = [f"quorum_vote n{n} success" for n in (1, 2, 3)]
    runs = ["run_start n2", "run_start n3", "run_complete n3 failure"]
    happen(member, "start 3", *votes, "quorum_succeeded", *runs, f"job_complete {word}")
    found = job(member)
    assert (found["status"], found["nodes"]) == (word, ENDS[word])
    with organization_feed(member, after=0) as feed:
        assert told(feed.take(2)) == ["start j1 3", f"job_complete j1 {word}"]


def test_a_job_goes_through_its_states(member: Member) -> None:
    seen = []
    for text in ("rehab n2", *SUCCESS):
        happen(member, text)
        found = job(member)
        seen.append((found["status"], found["nodes"]))
    assert seen == [
        ("new", {"unavailable": ["n2"]}),
        ("voting", {"unavailable": ["n2"]}),
        ("voting", {"unavailable": ["n2"], "ready": ["n1"]}),
        ("running", {"unavailable": ["n2"], "ready": ["n1"]}),
        ("running", {"unavailable": ["n2"], "running": ["n1"]}),
        ("running", {"unavailable": ["n2"], "succeeded": ["n1"]}),
        ("complete", {"unavailable": ["n2"], "succeeded": ["n1"]}),
    ]


@pytest.mark.parametrize("name", ["117", "ü 日本", "a%2Fb", "a.b,c;d=e", "'\"<&>", "-", "~", "j" * 200])
def test_a_job_is_found_by_its_id_however_that_is_written(name: str, member: Member) -> None:
    happen(member, *SUCCESS, job=name)
    assert job(member, name)["id"] == name
    assert told(job_feed(member, name).rest()) == list(SUCCESS)
    with organization_feed(member, after=0) as feed:
        assert [event.data["job"] for event in feed.take(2)] == [name, name]


def test_a_job_is_an_object_like_others(member: Member) -> None:
    *_, last = happen(member, *SUCCESS)
    expected = {"eventId": last, **job(member)}
    assert member.get("/objects/pushJob/j1").json() == member.get("/objects/pushJob/push/j1").json() == expected
    happen(member, "start 1", job="j2")
    found = member.get("/objects/pushJob").json()["elements"]
    assert [element["id"] for element in found] == ["j1", "j2"]
    assert member.get("/objects/pushJob/j3").status_code == 404


def test_the_latest_jobs_are_listed_newest_first_without_their_nodes(member: Member) -> None:
    for name in ("b", "c", "a"):
        happen(member, "start 1", "quorum_vote n1 success", job=name)
    happen(member, "job_complete aborted", job="b")
    listed = member.get(pushy(member, "jobs")).json()
    whole = [job(member, name) for name in ("a", "c", "b")]
    assert listed == [{name: value for name, value in one.items() if name != "nodes"} for one in whole]
    assert member.get(pushy(member, "jobs"), params={"limit": 2}).json() == listed[:2]


def test_one_event_may_be_posted_by_itself_and_once_only(member: Member) -> None:
    key = {"Idempotency-Key": "k"}
    answers = [member.ask("POST", "/events/push", json=fact("start 1"), headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json() == answers[1].json()
    (event,) = answers[0].json()["events"]
    assert (event["type"], event["key"]) == (["push", "start"], "/push/j1")
    assert event["payload"] == {"type": "json", "data": {**START, "quorum": 1}}
    assert job(member)["out_of_order"] == []
