"""Push-job events, the states of push jobs, and the ids of their feeds."""

import copy
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from chalicelib.domain import sse, vocabularies
from chalicelib.domain.events.event import Event, JsonPayload
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import next_commit
from chalicelib.domain.objects.ref import State
from chalicelib.domain.vocabularies import PUSH_VOCABULARY
from chalicelib.domain.vocabularies.push import jobs, sse_events
from chalicelib.domain.vocabularies.push.events import MAX_START_BYTES, PUSH_JOB, JobResult, RunResult, Vote
from tests.conformance.push.push_client import SUCCESS, Json, push_event

NOW_MS = 1_700_000_000_000
NODES = ("n1", "n2", "n3")
TEXTS = [
    "start 2",
    "quorum_succeeded",
    *(f"job_complete {word}" for word in get_args(JobResult)),
    *(f"{name} {node}" for name in ("run_start", "rehab") for node in NODES),
    *(f"quorum_vote {node} {word}" for node in NODES for word in get_args(Vote)),
    *(f"run_complete {node} {word}" for node in NODES for word in get_args(RunResult)),
]
"""Every event of a job with three nodes, in short form."""


def commit_events(events: Sequence[Json]) -> tuple[Event, ...]:
    """The events of one commit."""
    texts = encode_within_limits([PUSH_VOCABULARY.new_event(event) for event in events])
    return next_commit(Head(1), Append(1, texts, "r"), NOW_MS).events


def stored_state(events: Sequence[Json]) -> State:
    """The stored state after these events. It is written to JSON and read back after each event, like a record."""
    state: State | None = None
    for event in commit_events(events):
        state = vocabularies.fold(PUSH_JOB, from_json(to_json(state)), event)
    assert state is not None
    return state


def full_state(events: Sequence[Json]) -> State:
    """The job with all its nodes."""
    state = vocabularies.full_state(PUSH_JOB, commit_events(events))
    assert state is not None
    return state


def sorted_nodes(state: State) -> dict[str, list[str]]:
    return {status: sorted(nodes) for status, nodes in state["nodes"].items()}


@pytest.mark.parametrize("text", TEXTS)
def test_native_json_returns_published_event(text: str) -> None:
    (event,) = commit_events([push_event(text)])
    quorum = {"quorum": 2} if text == "start 2" else {}
    assert PUSH_VOCABULARY.native_json(event) == {"eventId": NOW_MS * 1000, **push_event(text), **quorum}
    assert (event.fields.type, event.fields.key) == (("push", text.split(maxsplit=1)[0]), "/push/j1")


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=25))
def test_fold_small_job_agrees_with_full_state(texts: list[str]) -> None:
    events = [push_event(text) for text in texts]
    stored, full = stored_state(events), full_state(events)
    assert sorted_nodes(stored) == sorted_nodes(full)
    assert stored["out_of_order"] == full["out_of_order"][: jobs.MAX_OUT_OF_ORDER]
    rest = stored.keys() - {"nodes", "out_of_order"}
    assert {name: stored[name] for name in rest} == {name: full[name] for name in rest}
    assert PUSH_VOCABULARY.is_full_state(stored)


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=25))
def test_fold_after_end_only_reports_out_of_order(texts: list[str]) -> None:
    ended = full_state([push_event(text) for text in SUCCESS])
    later = full_state([push_event(text) for text in (*SUCCESS, *texts)])
    assert {**later, "out_of_order": []} == ended
    assert [report["reason"] for report in later["out_of_order"]] == ["the job is over: complete"] * len(texts)


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=10))
def test_fold_does_not_change_previous_state(texts: list[str]) -> None:
    state: State | None = None
    for event in commit_events([push_event(text) for text in texts]):
        before = copy.deepcopy(state)
        after = vocabularies.fold(PUSH_JOB, state, event)
        assert state == before
        state = after


@pytest.mark.parametrize("status", ["new", "voting", "running"])
def test_has_ended_is_true_for_every_result(status: str) -> None:
    assert not jobs.has_ended({"status": status})
    assert [jobs.has_ended({"status": word}) for word in get_args(JobResult)] == [True] * len(get_args(JobResult))


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
    "only ready nodes become was_ready": (
        ("quorum_vote n1 success", "quorum_vote n2 down", "job_complete quorum_failed"),
        {"was_ready": ["n1"], "unavailable": ["n2"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES_AFTER)
def test_fold_moves_nodes_to_expected_states(name: str) -> None:
    texts, nodes = NODES_AFTER[name]
    assert stored_state([push_event(text) for text in ("start 2", *texts)])["nodes"] == nodes


def test_fold_start_without_quorum_needs_all_nodes() -> None:
    """A start that was published as a core event may lack the quorum."""
    start = PUSH_VOCABULARY.new_event(push_event("start 2"))
    assert isinstance(start.payload, JsonPayload)
    fields = {name: value for name, value in start.payload.data.items() if name != "quorum"}
    start = start.model_copy(update={"payload": JsonPayload(type="json", data=fields)})
    votes = [PUSH_VOCABULARY.new_event(push_event(text)) for text in ("quorum_vote n1 success", "quorum_succeeded")]
    texts = encode_within_limits([start, *votes])
    state = vocabularies.full_state(PUSH_JOB, next_commit(Head(1), Append(1, texts, "r"), NOW_MS).events)
    assert state is not None
    assert [report["reason"] for report in state["out_of_order"]] == ["1 nodes are ready, not 2"]


def test_fold_second_start_keeps_fields_of_first() -> None:
    first, second = push_event("start 2"), push_event("start 7", command="another", user="otto", dir="/", capture=True)
    state = stored_state([first, second])
    changed = {name for name in state if state[name] != stored_state([first]).get(name)}
    assert changed == {"timestamp", "updated_at", "out_of_order"}


def test_fold_large_job_stores_no_nodes() -> None:
    votes = [push_event(f"quorum_vote node-{n} success") for n in range(200)]
    states = [stored_state([push_event("start 200"), *votes[:n]]) for n in (1, 50, 51, 100, 200)]
    are_full = [PUSH_VOCABULARY.is_full_state(state) for state in states]
    assert (are_full[0], are_full[-1], are_full) == (True, False, sorted(are_full, reverse=True))
    everything = full_state([push_event("start 200"), *votes])
    nodes = {"ready": [f"node-{n}" for n in range(200)]}
    assert {**everything, "has_failed_nodes": False} == {**states[-1], "nodes": nodes}
    assert len(to_json(states[-1])) < len(to_json(states[1]))


def test_fold_large_job_reaches_its_end() -> None:
    events = [push_event(f"{event} node-{n}{word}") for event, word in STEPS[:1] for n in range(100)]
    events = [push_event("start 100"), *events, push_event("quorum_succeeded")]
    events += [push_event(f"{event} node-{n}{word}") for event, word in STEPS[1:] for n in range(100)]
    stored = stored_state([*events, push_event("job_complete complete"), push_event("rehab node-1")])
    assert (stored["status"], stored["nodes"]) == ("complete", None)
    assert [report["reason"] for report in stored["out_of_order"]] == ["the job is over: complete"]


STEPS = [("quorum_vote", " success"), ("run_start", ""), ("run_complete", " success")]


def test_fold_keeps_only_first_out_of_order_reports() -> None:
    events = [push_event("start 1"), *(push_event(f"run_start n{n}") for n in range(150))]
    stored, everything = stored_state(events)["out_of_order"], full_state(events)["out_of_order"]
    assert (len(stored), len(everything)) == (5, 100)
    assert everything[:5] == stored


def largest_start(character: str) -> Json:
    """The start event with the longest valid command of this character."""
    length = MAX_START_BYTES
    while not is_valid(push_event("start 1", "j" * 200, command=character * length)):
        length -= 1
    assert not is_valid(push_event("start 1", "j" * 200, command=character * (length + 1)))
    return push_event("start 1", "j" * 200, command=character * length)


def is_valid(event: Json) -> bool:
    try:
        PUSH_VOCABULARY.new_event(event)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600", "\x01", '"'])
def test_fold_largest_job_fits_in_state_limit(character: str) -> None:
    start = largest_start(character)
    nodes = [character * (200 - n) for n in range(10)]
    votes = [push_event("quorum_vote n success", "j" * 200, node=node) for node in nodes]  # out of order, so reported
    ended = push_event("job_complete complete", "j" * 200)
    state = stored_state([start, push_event("run_start n", "j" * 200, node=nodes[0]), *votes, ended])
    assert (state["status"], state["command"], len(state["out_of_order"])) == ("complete", start["command"], 5)


POSITIONS: list[tuple[str, str | None, Any]] = [
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


@pytest.mark.parametrize(("feed", "text", "expected"), POSITIONS, ids=str)
def test_parse_position_accepts_only_ids_of_the_feed(feed: str, text: str | None, expected: Any) -> None:
    assert sse_events.parse_position(feed, text) == expected


def test_sse_formatting() -> None:
    assert sse.format_event(7, "{}") == "id: 7\ndata: {}\n\n"
    assert sse.format_event("job-7", "{}", "start") == "event: start\nid: job-7\ndata: {}\n\n"
    assert sse.format_position("org-7-at-9") == "id: org-7-at-9\n\n"
    assert (sse.KEEPALIVE, sse.RETRY) == (":keepalive\n", "retry: 1000\n")


@pytest.mark.parametrize(("path", "canonical"), [("/j1", "/j1"), ("/push/j1", "/j1"), ("/push", "/push"), ("/", "/")])
def test_canonical_path_accepts_id_or_key(path: str, canonical: str) -> None:
    assert PUSH_VOCABULARY.canonical_path(PUSH_JOB, path) == canonical


@pytest.mark.parametrize(
    ("key", "paths"),
    [("/push/j1", ["/j1"]), ("/push/", []), ("/push", []), ("/push/a/b", []), ("/pushed/j1", []), ("/job/1", [])],
)
def test_objects_with_key_of_push_job_has_one_part(key: str, paths: list[str]) -> None:
    assert [ref.path for ref in PUSH_VOCABULARY.objects_with_key(key)] == paths


@pytest.mark.parametrize(("size_bytes", "is_stored"), [(1_000, True), (1_001, False)])
def test_stored_state_has_nodes_of_up_to_1000_bytes(size_bytes: int, is_stored: bool) -> None:
    nodes = [str(number) * 180 for number in range(5)]
    nodes.append("n" * (size_bytes - len(to_json({"running": [*nodes, ""]}))))
    state = stored_state([push_event("start 6"), *(push_event(f"run_start {node}") for node in nodes)])
    assert state["nodes"] == ({"running": nodes} if is_stored else None)
