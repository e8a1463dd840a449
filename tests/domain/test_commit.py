"""Commits: their bodies, and the continuity of the log."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.body import join_body
from chalicelib.domain.events.event import NewEvent, encode
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.commit import Commit, next_commit, verify_contiguous, verify_contiguous_backwards
from tests.builders import a_commit, a_text, an_append

TEXT = st.text(st.characters(codec="utf-8")) | st.sampled_from([",\n", '",\n"', "],[", "\u2028", "},\n{"])
TAGS = st.lists(st.sampled_from(["a", "]}", '"', "é"]), max_size=3)
ENCODED = st.lists(st.tuples(TEXT, TEXT, TAGS), min_size=1, max_size=5).map(
    lambda events: tuple(
        encode(
            NewEvent.model_validate(
                {"type": ["a"], "key": "k" + key, "payload": {"type": "json", "data": data}, "tags": tags}
            )
        )
        for key, data, tags in events
    )
)


@given(ENCODED)
def test_commit_body_is_json_and_splits_into_texts(encoded: tuple[bytes, ...]) -> None:
    texts = tuple(text.decode() for text in encoded)
    commit = a_commit(texts=texts)
    assert tuple(commit.texts) == texts
    assert json.loads(commit.body) == [json.loads(text) for text in texts]


@given(ENCODED, st.integers(1, 9), st.integers(1, 10**9), st.integers(0, 2**53 - 10))
def test_commit_wire_texts_equal_those_of_its_events(
    encoded: tuple[bytes, ...], server: int, session: int, at: int
) -> None:
    commit = a_commit(session, server=server, at=at, texts=tuple(text.decode() for text in encoded))
    assert commit.wire_texts == [event.wire_text for event in commit.events]
    assert [json.loads(wire)["eventId"] for wire in commit.wire_texts] == list(range(at, at + len(encoded)))


def test_commit_events_are_numbered_from_one() -> None:
    commit = a_commit(session=7, server=3, at=5_000, texts=(a_text("/a"), a_text("/b"), a_text("/c")))
    assert [(event.id, event.event_id, event.at_us, event.fields.key) for event in commit.events] == [
        (Id(3, 7, 1), 5_000, 5_000, "/a"),
        (Id(3, 7, 2), 5_001, 5_000, "/b"),
        (Id(3, 7, 3), 5_002, 5_000, "/c"),
    ]
    assert (commit.last_event_id, commit.head) == (5_002, Head(server=3, session=7, instance=3, last_event_id=5_002))


@pytest.mark.parametrize(
    ("head", "now_ms", "session", "at", "prev"),
    [
        (Head(1), 5_000, 1, 5_000_000, 0),
        (Head(1, 4, 1, 4_000_000), 5_000, 5, 5_000_000, 4_000_000),
        (Head(1, 4, 1, 5_000_000), 5_000, 5, 5_000_001, 5_000_000),
        (Head(1, 4, 3, 6_000_002), 5_000, 5, 6_000_003, 6_000_002),
        (Head(1, 4, 1, 4_000_000), 0, 5, 4_000_001, 4_000_000),
    ],
)
def test_next_commit_follows_head(head: Head, now_ms: int, session: int, at: int, prev: int) -> None:
    texts = (a_text("/a"), a_text("/b"))
    assert next_commit(head, an_append(texts, request_id="ours"), now_ms) == Commit(
        server=1,
        session=session,
        at_us=at,
        event_count=2,
        previous_event_id=prev,
        request_id="ours",
        body=f"[{texts[0]},\n{texts[1]}]",
        before=head.position,
    )


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 5)), max_size=10))
def test_next_commit_sequence_is_contiguous(steps: list[tuple[int, int]]) -> None:
    head, commits = Head(1), []
    for now_ms, events in steps:
        commits.append(next_commit(head, an_append((a_text(),) * events), now_ms))
        head = commits[-1].head
    assert list(verify_contiguous(Head(1), commits)) == commits


BROKEN: dict[str, list[dict[str, Any]]] = {
    "a gap": [{"session": 1}, {"session": 3, "prev": 1_000}],
    "a gap at the start": [{"session": 2, "prev": 0}],
    "a repeat": [{"session": 1}, {"session": 1, "at": 2_000, "prev": 1_000}],
    "a step back": [{"session": 1}, {"session": 2}, {"session": 1, "at": 3_000, "prev": 2_000}],
    "another prev": [{"session": 1}, {"session": 2, "prev": 999}],
    "no prev": [{"session": 1}, {"session": 2, "prev": 0}],
    "a prev at the start": [{"session": 1, "prev": 5}],
    "an EventId that does not increase": [{"session": 1}, {"session": 2, "at": 1_000}],
    "an EventId within the previous commit": [
        {"session": 1, "texts": (a_text(), a_text())},
        {"session": 2, "at": 1_001, "prev": 1_001},
    ],
}


@pytest.mark.parametrize("commits", BROKEN.values(), ids=BROKEN.keys())
def test_verify_contiguous_broken_log_raises(commits: list[dict[str, Any]]) -> None:
    log = [a_commit(**commit) for commit in commits]
    verified = verify_contiguous(Head(1), log)
    assert [next(verified) for _ in log[:-1]] == log[:-1]
    with pytest.raises(LogBroken, match=rf"session {log[-1].session} of server 1 .* does not follow session"):
        next(verified)


def test_verify_contiguous_from_later_head_succeeds() -> None:
    assert list(verify_contiguous(Head(1, 4, 1, 4_000), [a_commit(5), a_commit(6)])) == [a_commit(5), a_commit(6)]


def test_join_body_puts_one_event_per_line() -> None:
    assert join_body(["{}", "{}"]) == "[{},\n{}]"


@pytest.mark.parametrize("event_count", [1, 3], ids=["too many events", "too few events"])
def test_commit_texts_of_wrong_number_raise_log_broken(event_count: int) -> None:
    commit = a_commit(texts=(a_text("/a"), a_text("/b")))._replace(event_count=event_count)
    with pytest.raises(LogBroken, match=f"session 1 of server 1 has 2 events, expected {event_count}"):
        commit.texts  # noqa: B018


BROKEN_BACKWARDS: dict[str, list[dict[str, Any]]] = {
    "a gap": [{"session": 3, "prev": 1_000}, {"session": 1}],
    "a repeat": [{"session": 2}, {"session": 2, "at": 1_000}],
    "a step forward": [{"session": 2}, {"session": 3, "at": 1_000}],
    "another prev": [{"session": 2, "prev": 999}, {"session": 1}],
    "no prev": [{"session": 3}, {"session": 2, "prev": 0}, {"session": 1}],
    "more events than prev says": [{"session": 2}, {"session": 1, "texts": (a_text(), a_text())}],
}


@pytest.mark.parametrize("commits", BROKEN_BACKWARDS.values(), ids=BROKEN_BACKWARDS.keys())
def test_verify_contiguous_backwards_broken_log_raises(commits: list[dict[str, Any]]) -> None:
    log = [a_commit(**commit) for commit in commits]
    verified = verify_contiguous_backwards(log)
    assert [next(verified) for _ in log[:-1]] == log[:-1]
    with pytest.raises(LogBroken, match=rf"session {log[-2].session} of server 1 .* does not follow session"):
        next(verified)


def test_verify_contiguous_backwards_from_any_commit_succeeds() -> None:
    log = [a_commit(6), a_commit(5), a_commit(4)]
    assert list(verify_contiguous_backwards(log)) == log
