"""Excerpts: copies of an object's events are exact, and only made of small events with the object's key."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.domain.objects.ref import KEYED, TAGGED, ObjectRef
from chalicelib.domain.views.excerpt import (
    MAX_EXCERPT_CHARACTERS,
    Excerpt,
    decode_excerpts,
    encode_excerpts,
    make_excerpt,
)
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from tests.conformance.anyjob.anyjob import create, progress

KEY = '/ß "\\,key":\n/1'
REF = ObjectRef(KEYED, KEY)

texts = st.text(st.characters(codec="utf-8"), max_size=8)
new_events = st.builds(
    lambda key, subtypes, data, tags, time_us: NewEvent(
        type=(*subtypes, "end"),
        key=key,
        payload=JsonPayload(type="json", data=data),
        tags=tags,
        source_timestamp=time_us,
    ),
    st.sampled_from([KEY, KEY, "/other", None]),
    st.lists(st.sampled_from(["a", 'q"', "],", ',"key":', "日本"]), max_size=2),
    st.one_of(st.none(), texts, st.floats(allow_nan=False, allow_infinity=False), st.lists(texts, max_size=2)),
    st.lists(texts.filter(bool), max_size=2).map(tuple),
    st.none(),
)
logs = st.lists(st.lists(new_events, min_size=1, max_size=4), min_size=1, max_size=6)


def commit_all(batches: list[list[NewEvent]]) -> list[Commit]:
    head, commits = Head(3), list[Commit]()
    for number, events in enumerate(batches):
        commits.append(next_commit(head, Append(3, encode_within_limits(events), f"r{number}"), 1_000 + number))
        head = commits[-1].head
    return commits


def excerpts_of(ref: ObjectRef, commits: list[Commit]) -> dict[int, Excerpt | None]:
    """The excerpt of each commit with events of the object."""
    events = {
        commit.session: [event for event in commit.events if ref in vocabularies.affected_objects(event.fields)]
        for commit in commits
    }
    return {c.session: make_excerpt(ref, c, events[c.session]) for c in commits if events[c.session]}


@given(logs)
def test_decoded_excerpts_have_the_events_of_their_commits(batches: list[list[NewEvent]]) -> None:
    commits = commit_all(batches)
    made = excerpts_of(REF, commits)
    stored = from_json(to_json(encode_excerpts(made, {n: one for n, one in made.items() if one is not None})))
    decoded = decode_excerpts(3, made, stored)
    assert decoded.keys() == made.keys()
    for commit in commits:
        expected = [event for event in commit.events if event.fields.key == KEY]
        assert bool(expected) == (commit.session in decoded)
        if expected:
            excerpt = decoded[commit.session]
            assert [event.wire_text for event in excerpt.events] == [event.wire_text for event in expected]
            assert (excerpt.head, excerpt.last_event_id) == (commit.head, commit.last_event_id)


def job(number: int, **fields: Any) -> NewEvent:
    return JOB_VOCABULARY.new_event(create(number, **fields))


NOT_COPIED = {
    "an event of a job that belongs to the set": (ObjectRef("jobset", "/7"), [job(1, jobset=7)]),
    "events with the object's key and others": (
        ObjectRef("jobset", "/7"),
        [JOB_VOCABULARY.new_event({"event": "createJobSet", "node": "n", "id": 7, "jobs": []}), job(1, jobset=7)],
    ),
    "a tag": (ObjectRef(TAGGED, "t"), [NewEvent(type=("a",), key="/a", tags=("t",))]),
    "a large event": (
        ObjectRef("job", "/1"),
        [JOB_VOCABULARY.new_event(progress(1, log={"message": "x" * MAX_EXCERPT_CHARACTERS}))],
    ),
}


@pytest.mark.parametrize("name", NOT_COPIED)
def test_other_events_are_not_copied(name: str) -> None:
    ref, events = NOT_COPIED[name]
    assert excerpts_of(ref, commit_all([events])) == {1: None}


def test_commit_without_position_is_not_copied() -> None:
    (commit,) = commit_all([[job(1)]])
    old = Commit(*commit[:7])
    assert make_excerpt(ObjectRef("job", "/1"), old, old.events) is None


def test_merged_excerpt_has_the_events_of_both_objects_in_order() -> None:
    events = [job(1), NewEvent(type=("note",), key="/job/1"), JOB_VOCABULARY.new_event(progress(1, state="run"))]
    (commit,) = commit_all([events])
    first, second = (excerpts_of(ref, [commit])[1] for ref in (ObjectRef(KEYED, "/job/1"), ObjectRef("job", "/1")))
    assert first is not None
    assert second is not None
    assert (len(first.events), len(second.events)) == (1, 2)
    assert [event.wire_text for event in first.merge(second).events] == [event.wire_text for event in commit.events]
