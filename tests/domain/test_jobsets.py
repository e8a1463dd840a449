"""Sets of jobs as values: what their own events and those of their jobs fold into, stored and whole."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from chalicelib.domain.objects.ref import State
from chalicelib.domain.vocabularies import MOST_STATE_BYTES, job
from chalicelib.domain.vocabularies.job.jobsets import clean_of, finish_of, is_complete, is_over
from tests.conformance.anyjob.anyjob import (
    DATA,
    EVENTS,
    PARAMS,
    PROPS,
    Json,
    create,
    create_set,
    ended,
    finish,
    finish_set,
    of_job,
    planned,
    progress,
    without,
)
from tests.domain.test_jobs import events_of, folded, kept, whole

LARGE = "x" * 500
"""Of jobs with such texts, a stored state keeps no more than two."""


def both(own: Sequence[Json]) -> tuple[State, State]:
    """Set 7 as it is stored, and whole."""
    stored, all_of_it = folded(own, "jobset", "/7"), whole(own, "jobset", "/7")
    assert stored is not None
    assert all_of_it is not None
    return stored, all_of_it


def jobs_of(*own: Json) -> list[Json]:
    """The jobs of set 7 after these events."""
    found: list[Json] = both(own)[1]["jobs"]
    return found


A, B = planned("a"), planned("b")
PLACES: dict[str, tuple[list[Json], list[Json], list[int | None]]] = {
    "in order": ([A, A], [create(1, 7, type="a"), create(2, 7, type="a")], [1, 2]),
    "by type": ([A, B], [create(1, 7, type="b"), create(2, 7, type="a")], [2, 1]),
    "by params": (
        [planned("a", disk="sda"), planned("a", disk="sdb")],
        [create(1, 7, type="a", params={"disk": "sdb"}), create(2, 7, type="a", params={"disk": "sda"})],
        [2, 1],
    ),
    "by node": (
        [planned("a", "n1"), planned("a", "n2")],
        [create(1, 7, type="a", node="n2"), create(2, 7, type="a", node="n1")],
        [2, 1],
    ),
    "on another node": ([A, B], [create(1, 7, type="b", node="n9")], [None, 1]),
    "with other params": ([A, B], [create(1, 7, type="b", params={"a": "b"})], [None, 1]),
    "of no planned type": ([A], [create(1, 7, type="c")], [None, 1]),
    "more than planned": ([A], [create(1, 7, type="a"), create(2, 7, type="a")], [1, 2]),
    "created twice": ([A, A], [create(1, 7, type="a"), create(1, 7, type="a")], [1, None]),
    "without a create": ([A, B], [progress(1, 7, type="b", state="run")], [None, 1]),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_job_takes_the_place_that_was_planned_for_it(name: str) -> None:
    jobs, own, places = PLACES[name]
    assert [one.get("id") for one in jobs_of(create_set(7, jobs), *own)] == places


@pytest.mark.parametrize("name", ["in order", "by type", "by params", "by node", "on another node", "created twice"])
def test_a_job_takes_the_same_place_if_it_comes_before_its_set(name: str) -> None:
    jobs, own, places = PLACES[name]
    assert [one.get("id") for one in jobs_of(*own, create_set(7, jobs))] == places


def test_a_job_in_a_set_tells_what_happened_to_it() -> None:
    own = [
        create_set(7, [planned()]),
        create(1, 7, params=PARAMS, props=PROPS),
        progress(1, 7, state="run", progress="1/2", data=DATA),
        of_job("redirect", 1, 7, redirect="n2"),
    ]
    job_now = {**planned(node="n2"), "params": PARAMS, "props": PROPS, "id": 1, "state": "run", "progress": "1/2"}
    assert jobs_of(*own) == [job_now]
    assert jobs_of(*own, finish(1, 7)) == [{**job_now, "state": "finished", "success": "1", "message": "job 1 ended"}]
    assert jobs_of(*own, of_job("clean", 1, 7)) == [{**job_now, "state": "cleaned"}]


@pytest.mark.parametrize(
    ("own", "complete", "over"),
    [
        ([create_set(7, 1)], False, False),
        ([create_set(7, 1), finish(1, 7)], True, False),
        ([create_set(7, 2), finish(1, 7)], False, False),
        ([create_set(7, 2), finish(1, 7), finish(1, 7)], False, False),
        ([create_set(7, 2), finish(1, 7), of_job("clean", 2, 7)], False, False),
        ([create_set(7, 2), finish(1, 7), of_job("clean", 2, 7), finish(2, 7)], True, False),
        ([finish(1, 7)], False, False),
        ([finish(1, 7), create_set(7, 1)], True, False),
        ([create_set(7, 0), finish(1, 7)], False, False),
        ([create_set(7, 1), finish(1, 7), finish_set(7, 1)], False, True),
        ([create_set(7, 1), finish_set(7, 1)], False, True),
        ([create_set(7, 1), finish_set(7, 1), finish(1, 7)], False, True),
        ([create_set(7, 1), {**finish_set(7), "event": "cleanJobSet"}, finish(1, 7)], False, True),
        ([create_set(7, 1), {**EVENTS["progressJobSet"], "state": "finished"}, finish(1, 7)], True, False),
    ],
    ids=lambda own: " ".join(f"{one['event']}-{one['id']}" for one in own) if isinstance(own, list) else str(own),
)
def test_a_set_is_complete_when_all_its_jobs_have_finished_and_nobody_has_said_so(
    own: list[Json], complete: bool, over: bool
) -> None:
    for state in both(own):
        assert (is_complete(state), is_over(state)) == (complete, over)


def test_the_finish_of_a_set_has_exactly_the_fields_of_the_vocabulary() -> None:
    jobs = [planned("a", disk="sda"), planned("b")]
    own = [
        create_set(7, jobs, node="global", props=PROPS),
        create(1, 7, type="a", params={"disk": "sda"}, props=PROPS),
        create(2, 7, type="b"),
        progress(2, 7, type="b", progress="1/2", log={"message": "not here"}, data=DATA),
        {**EVENTS["progressJobSet"], "node": "other"},
        finish(2, 7, type="b", data=DATA),
        finish(1, 7, type="a", success="0"),
    ]
    assert finish_of(both(own)[1]) == {
        "event": "finishJobSet",
        "node": "global",
        "id": 7,
        "props": PROPS,
        "jobs": [
            ended(1, type="a", params={"disk": "sda"}, props=PROPS, success="0"),
            ended(2, type="b", progress="1/2"),
        ],
    }


def test_the_clean_of_a_set_tells_the_state_of_each_job() -> None:
    own = [
        create_set(7, [A, A, A, B], props=PROPS),
        finish(1, 7, type="a"),
        progress(2, 7, type="a", state="run", progress="1/2"),
        of_job("clean", 3, 7, type="a"),
        of_job("redirect", 9, 7, redirect="n2"),
    ]
    found = clean_of(both(own)[1])
    assert found == {
        "event": "cleanJobSet",
        "node": "n1",
        "id": 7,
        "props": PROPS,
        "jobs": [
            ended(1, type="a"),
            {**A, "id": 2, "state": "run", "progress": "1/2"},
            {**A, "id": 3, "state": "cleaned"},
            {**B, "state": "planned"},
        ],
    }
    assert job.own_json(events_of([job.new_event(found)])[0]) is not None


def test_of_many_jobs_only_the_finished_are_counted_where_the_set_is_stored() -> None:
    n = 300
    own = [create_set(7, n), *(create(number, 7) for number in range(n)), *(finish(number, 7) for number in range(n))]
    for last in (n + 1, n + 2, n + 100, 2 * n):
        stored, all_of_it = both(own[:last])
        assert (stored["jobs"], stored["total"], stored["finished"]) == (None, n, all_of_it["finished"])
        assert len(to_json(stored)) <= MOST_STATE_BYTES
        assert not is_complete(stored)
    assert is_complete(both(own)[0])


def test_a_large_set_that_is_cleaned_with_jobs_that_have_no_ids_does_no_harm() -> None:
    listed = [{**planned(text=LARGE), "state": "finished", "success": "1", "message": "m"}] * 5
    stored, all_of_it = both([create_set(7, 5), {**create_set(7, listed), "event": "cleanJobSet"}, finish(1, 7)])
    assert (stored["jobs"], is_over(stored), is_over(all_of_it)) == (None, True, True)


number = st.integers(1, 6)
text = st.sampled_from(["", "s", LARGE])
job_type = st.sampled_from(["a", "b"])
some_planned = st.builds(lambda kind, words: planned(kind, text=words), job_type, text)
told = st.one_of(
    st.builds(lambda n, kind, words: create(n, 7, type=kind, params={"text": words}), number, job_type, text),
    st.builds(lambda n, kind, words: progress(n, 7, type=kind, state=words), number, job_type, text),
    st.builds(lambda n: of_job("redirect", n, 7, redirect="n2"), number),
    st.builds(lambda n, kind, words: {**finish(n, 7, type=kind), "message": words}, number, job_type, text),
    st.builds(lambda n, kind: of_job("clean", n, 7, type=kind), number, job_type),
    st.builds(lambda jobs: create_set(7, jobs), st.lists(some_planned, max_size=4)),
    st.builds(lambda words: {**EVENTS["progressJobSet"], "state": words, "data": {"text": words}}, text),
    st.builds(lambda ns, words: finish_set(7, *ns, props={"a": words}), st.lists(number, max_size=3), text),
    st.builds(lambda jobs: {**EVENTS["cleanJobSet"], "jobs": [{**one, "state": "s"} for one in jobs]},
              st.lists(some_planned, max_size=3)),
)  # fmt: skip


@given(st.lists(told, min_size=1, max_size=14))
def test_what_is_stored_event_by_event_is_what_all_events_say(own: list[Json]) -> None:
    stored, all_of_it = folded(own, "jobset", "/7"), whole(own, "jobset", "/7")
    if stored is None or all_of_it is None:
        assert stored == all_of_it
        return
    assert without(dict(stored), "ended", "failed") == kept(stored, all_of_it)
    assert (is_complete(stored), is_over(stored)) == (is_complete(all_of_it), is_over(all_of_it))
    assert len(to_json(stored)) <= MOST_STATE_BYTES


@given(st.lists(told, min_size=1, max_size=14))
def test_whatever_is_told_of_a_set_its_finish_and_its_clean_follow_the_vocabulary(own: list[Json]) -> None:
    found = whole(own, "jobset", "/7")
    if found is None:
        return
    made = [clean_of(found), *([finish_of(found)] if is_complete(found) else [])]
    for event in events_of([job.new_event(one) for one in made]):
        assert job.own_json(event) is not None
