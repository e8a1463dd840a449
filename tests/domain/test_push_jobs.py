"""Push jobs as values: their events, what these fold into, and the ids of their feeds."""

import copy
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from chalicelib.domain import sse, vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.log.commit import next_commit
from chalicelib.domain.objects.ref import State
from chalicelib.domain.vocabularies import push
from chalicelib.domain.vocabularies.push import jobs, sse_events
from chalicelib.domain.vocabularies.push.events import MOST_START_BYTES, PUSH_JOB, JobResult, RunResult, Vote
from tests.conformance.push.push_client import SUCCESS, Json, fact

NOW_MS = 1_700_000_000_000
NODES = ("n1", "n2", "n3")
FACTS = [
    "start 2",
    "quorum_succeeded",
    *(f"job_complete {word}" for word in get_args(JobResult)),
    *(f"{name} {node}" for name in ("run_start", "rehab") for node in NODES),
    *(f"quorum_vote {node} {word}" for node in NODES for word in get_args(Vote)),
    *(f"run_complete {node} {word}" for node in NODES for word in get_args(RunResult)),
]
"""All that can happen to a job with three nodes."""


def events_of(facts: Sequence[Json]) -> tuple[Event, ...]:
    """The events of one commit."""
    texts = encoded([push.new_event(given) for given in facts])
    return next_commit(Head(1), Append(1, texts, "r"), NOW_MS).events


def folded(facts: Sequence[Json]) -> State:
    """The job as it is stored after these events: read from its record and written to it each time."""
    state: State | None = None
    for event in events_of(facts):
        state = vocabularies.fold(PUSH_JOB, from_json(to_json(state)), event)
    assert state is not None
    return state


def whole(facts: Sequence[Json]) -> State:
    """The job with all its nodes."""
    state = vocabularies.whole(PUSH_JOB, events_of(facts))
    assert state is not None
    return state


def sorted_nodes(state: State) -> dict[str, list[str]]:
    """The nodes, in an order that says nothing."""
    return {status: sorted(nodes) for status, nodes in state["nodes"].items()}


@pytest.mark.parametrize("text", FACTS)
def test_an_event_is_read_as_it_was_written(text: str) -> None:
    (event,) = events_of([fact(text)])
    quorum = {"quorum": 2} if text == "start 2" else {}
    assert push.own_json(event) == {"eventId": NOW_MS * 1000, **fact(text), **quorum}
    assert (event.stored.type, event.stored.key) == (("push", text.split(maxsplit=1)[0]), "/push/j1")


@given(st.lists(st.sampled_from(FACTS), min_size=1, max_size=25))
def test_whatever_happens_a_small_job_is_stored_whole(texts: list[str]) -> None:
    facts = [fact(text) for text in texts]
    stored, all_of_it = folded(facts), whole(facts)
    assert sorted_nodes(stored) == sorted_nodes(all_of_it)
    assert stored["out_of_order"] == all_of_it["out_of_order"][: jobs.MOST_REPORTED]
    rest = stored.keys() - {"nodes", "out_of_order"}
    assert {name: stored[name] for name in rest} == {name: all_of_it[name] for name in rest}
    assert push.is_whole(stored)


@given(st.lists(st.sampled_from(FACTS), min_size=1, max_size=25))
def test_whatever_happens_after_its_end_a_job_stays_as_it_is(texts: list[str]) -> None:
    ended = whole([fact(text) for text in SUCCESS])
    later = whole([fact(text) for text in (*SUCCESS, *texts)])
    assert {**later, "out_of_order": []} == ended
    assert [report["reason"] for report in later["out_of_order"]] == ["the job is over: complete"] * len(texts)


@given(st.lists(st.sampled_from(FACTS), min_size=1, max_size=10))
def test_folding_changes_no_state_that_it_is_given(texts: list[str]) -> None:
    state: State | None = None
    for event in events_of([fact(text) for text in texts]):
        before = copy.deepcopy(state)
        folded_state = vocabularies.fold(PUSH_JOB, state, event)
        assert state == before
        state = folded_state


@pytest.mark.parametrize("status", ["new", "voting", "running"])
def test_a_job_is_over_when_it_has_ended(status: str) -> None:
    assert not jobs.is_over({"status": status})
    assert [jobs.is_over({"status": word}) for word in get_args(JobResult)] == [True] * len(get_args(JobResult))


NODES_AFTER = {
    "an unexpected commit leaves a node that voted": (
        ("quorum_vote n1 success", "quorum_vote n1 unexpected_commit"), {"ready": ["n1"]}
    ),
    "a death while voting leaves a node that refused": (
        ("quorum_vote n1 failure", "quorum_vote n1 client_died_while_voting"), {"nacked": ["n1"]}
    ),
    "a node that is lost is not ready": (
        ("quorum_vote n1 success", "quorum_vote n1 lost_availibility"), {"unavailable": ["n1"]}
    ),
    "rehab during the vote makes a node unavailable": (
        ("quorum_vote n1 success", "rehab n1", "rehab n2"), {"unavailable": ["n1", "n2"]}
    ),
    "rehab leaves a node that refused": (("quorum_vote n1 failure", "rehab n1"), {"nacked": ["n1"]}),
    "rehab during the run leaves a node": (
        ("quorum_vote n1 success", "quorum_succeeded", "run_start n1", "rehab n1", "rehab n2"), {"running": ["n1"]}
    ),
    "a death during the run": (
        (*SUCCESS[1:4], "run_complete n1 client_died_while_running"), {"crashed": ["n1"]}
    ),
    "a death after the run leaves the node": (
        (*SUCCESS[1:5], "run_complete n1 client_died_while_running"), {"succeeded": ["n1"]}
    ),
    "a second result counts": ((*SUCCESS[1:5], "run_complete n1 failure"), {"failed": ["n1"]}),
    "only who was ready was ready": (
        ("quorum_vote n1 success", "quorum_vote n2 down", "job_complete quorum_failed"),
        {"was_ready": ["n1"], "unavailable": ["n2"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES_AFTER)
def test_nodes_go_where_events_send_them(name: str) -> None:
    texts, nodes = NODES_AFTER[name]
    assert folded([fact(text) for text in ("start 2", *texts)])["nodes"] == nodes


def test_a_second_start_changes_nothing_of_what_the_first_one_said() -> None:
    first, second = fact("start 2"), fact("start 7", command="another", user="otto", dir="/", capture=True)
    state = folded([first, second])
    changed = {name for name in state if state[name] != folded([first]).get(name)}
    assert changed == {"timestamp", "updated_at", "out_of_order"}


def test_a_job_that_gets_large_is_stored_without_its_nodes_and_still_whole_when_read_whole() -> None:
    votes = [fact(f"quorum_vote node-{n} success") for n in range(200)]
    states = [folded([fact("start 200"), *votes[:n]]) for n in (1, 50, 51, 100, 200)]
    are_whole = [push.is_whole(state) for state in states]
    assert (are_whole[0], are_whole[-1], are_whole) == (True, False, sorted(are_whole, reverse=True))
    everything = whole([fact("start 200"), *votes])
    assert everything == {**states[-1], "nodes": {"ready": [f"node-{n}" for n in range(200)]}}
    assert len(to_json(states[-1])) < len(to_json(states[1]))


def test_a_large_job_goes_on_and_ends_as_any_other() -> None:
    facts = [fact(f"{event} node-{n}{word}") for event, word in STEPS[:1] for n in range(100)]
    facts = [fact("start 100"), *facts, fact("quorum_succeeded")]
    facts += [fact(f"{event} node-{n}{word}") for event, word in STEPS[1:] for n in range(100)]
    stored = folded([*facts, fact("job_complete complete"), fact("rehab node-1")])
    assert (stored["status"], stored["nodes"]) == ("complete", None)
    assert [report["reason"] for report in stored["out_of_order"]] == ["the job is over: complete"]


STEPS = [("quorum_vote", " success"), ("run_start", ""), ("run_complete", " success")]


def test_only_the_first_reports_are_kept() -> None:
    facts = [fact("start 1"), *(fact(f"run_start n{n}") for n in range(150))]
    stored, everything = folded(facts)["out_of_order"], whole(facts)["out_of_order"]
    assert (len(stored), len(everything)) == (5, 100)
    assert everything[:5] == stored


def largest_start(character: str) -> Json:
    """The start with the longest command of this character that is taken."""
    length = MOST_START_BYTES
    while not is_taken(fact("start 1", "j" * 200, command=character * length)):
        length -= 1
    assert not is_taken(fact("start 1", "j" * 200, command=character * (length + 1)))
    return fact("start 1", "j" * 200, command=character * length)


def is_taken(given: Json) -> bool:
    try:
        push.new_event(given)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600", "\x01", '"'])
def test_the_largest_job_with_the_longest_reports_is_still_folded_to_its_end(character: str) -> None:
    start = largest_start(character)
    nodes = [character * (200 - n) for n in range(10)]
    votes = [fact("quorum_vote n success", "j" * 200, node=node) for node in nodes]  # too late, so reported
    ended = fact("job_complete complete", "j" * 200)
    state = folded([start, fact("run_start n", "j" * 200, node=nodes[0]), *votes, ended])
    assert (state["status"], state["command"], len(state["out_of_order"])) == ("complete", start["command"], 5)


PLACES: list[tuple[str, str | None, Any]] = [
    ("job", "job-7", (7, 7, True)),
    ("org", "org-7", (7, 7, True)),
    ("org", "org-7-at-9", (7, 9, False)),
    ("org", sse_events.position_id(7, 9), (7, 9, False)),
    ("job", "org-7", None),
    ("org", "job-7", None),
    ("job", None, None),
    ("job", "", None),
    ("job", "job-", None),
    ("job", "job--7", None),
    ("job", "job-7 ", None),
    ("job", "job-7\n", None),
    ("job", "job-\u0667", None),
    ("job", "job-12345678901234567", None),
    ("job", "JOB-7", None),
    ("org", "start_id", None),
    ("org", "org-7-at-", None),
]


@pytest.mark.parametrize(("feed", "text", "expected"), PLACES, ids=str)
def test_an_id_stands_for_a_place_on_its_feed(feed: str, text: str | None, expected: Any) -> None:
    assert sse_events.place(feed, text) == expected


def test_frames_are_blocks_of_lines() -> None:
    assert sse.frame(7, "{}") == "id: 7\ndata: {}\n\n"
    assert sse.frame("job-7", "{}", "start") == "event: start\nid: job-7\ndata: {}\n\n"
    assert sse.position("org-7-at-9") == "id: org-7-at-9\n\n"
    assert (sse.KEEPALIVE, sse.RETRY) == (":keepalive\n", "retry: 1000\n")


@pytest.mark.parametrize(("path", "canonical"), [("/j1", "/j1"), ("/push/j1", "/j1"), ("/push", "/push"), ("/", "/")])
def test_a_job_is_found_by_its_id_or_its_key(path: str, canonical: str) -> None:
    assert push.canonical(PUSH_JOB, path) == canonical
