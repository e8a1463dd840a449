"""Stored and full states of job sets, and the events that end them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.domain.vocabularies.job.jobsets import (
    clean_event,
    finish_event,
    has_ended,
    has_exact_count,
    is_finish_due,
)
from tests.conformance.anyjob.anyjob import (
    DATA,
    EVENTS,
    PARAMS,
    PROPS,
    Json,
    create,
    create_set,
    finish,
    finish_set,
    finished_job,
    job_event,
    planned_job,
    progress,
    without,
)
from tests.domain.test_jobs import commit_events, full_state, omit_large_fields, stored_state

LARGE = "x" * 500
"""A stored state has room for at most two jobs with such a text."""

MAX_STATE_BYTES = 24 * 1024
"""Stored states of jobs and sets are smaller than this."""


def stored_and_full_state(native: Sequence[Json]) -> tuple[State, State]:
    stored, full = stored_state(native, "jobset", "/7"), full_state(native, "jobset", "/7")
    assert stored is not None
    assert full is not None
    return stored, full


def jobs_after(*native: Json) -> list[Json]:
    """The jobs of set 7 after these events."""
    jobs: list[Json] = stored_and_full_state(native)[1]["jobs"]
    return jobs


A, B = planned_job("a"), planned_job("b")
PLACES: dict[str, tuple[list[Json], list[Json], list[int | None]]] = {
    "in order": ([A, A], [create(1, 7, type="a"), create(2, 7, type="a")], [1, 2]),
    "by type": ([A, B], [create(1, 7, type="b"), create(2, 7, type="a")], [2, 1]),
    "by params": (
        [planned_job("a", disk="sda"), planned_job("a", disk="sdb")],
        [create(1, 7, type="a", params={"disk": "sdb"}), create(2, 7, type="a", params={"disk": "sda"})],
        [2, 1],
    ),
    "by node": (
        [planned_job("a", "n1"), planned_job("a", "n2")],
        [create(1, 7, type="a", node="n2"), create(2, 7, type="a", node="n1")],
        [2, 1],
    ),
    "on another node": ([A, B], [create(1, 7, type="b", node="n9")], [None, 1]),
    "with other params": ([A, B], [create(1, 7, type="b", params={"a": "b"})], [None, 1]),
    "of an unplanned type": ([A], [create(1, 7, type="c")], [None, 1]),
    "more than planned": ([A], [create(1, 7, type="a"), create(2, 7, type="a")], [1, 2]),
    "created twice": ([A, A], [create(1, 7, type="a"), create(1, 7, type="a")], [1, None]),
    "without a create": ([A, B], [progress(1, 7, type="b", state="run")], [None, 1]),
}


@pytest.mark.parametrize("name", PLACES)
def test_created_job_fills_matching_planned_place(name: str) -> None:
    jobs, native, places = PLACES[name]
    assert [job.get("id") for job in jobs_after(create_set(7, jobs), *native)] == places


@pytest.mark.parametrize("name", ["in order", "by type", "by params", "by node", "on another node", "created twice"])
def test_job_created_before_set_fills_the_same_place(name: str) -> None:
    jobs, native, places = PLACES[name]
    assert [job.get("id") for job in jobs_after(*native, create_set(7, jobs))] == places


def test_jobset_state_has_latest_state_of_each_job() -> None:
    native = [
        create_set(7, [planned_job()]),
        create(1, 7, params=PARAMS, props=PROPS),
        progress(1, 7, state="run", progress="1/2", data=DATA),
        job_event("redirect", 1, 7, redirect="n2"),
    ]
    job_now = {**planned_job(node="n2"), "params": PARAMS, "props": PROPS, "id": 1, "state": "run", "progress": "1/2"}
    assert jobs_after(*native) == [job_now]
    assert jobs_after(*native, finish(1, 7)) == [
        {**job_now, "state": "finished", "success": "1", "message": "job 1 ended"}
    ]
    assert jobs_after(*native, job_event("clean", 1, 7)) == [{**job_now, "state": "cleaned"}]


@pytest.mark.parametrize(
    ("native", "is_due", "has_set_ended"),
    [
        ([create_set(7, 1)], False, False),
        ([create_set(7, 1), finish(1, 7)], True, False),
        ([create_set(7, 2), finish(1, 7)], False, False),
        ([create_set(7, 2), finish(1, 7), finish(1, 7)], False, False),
        ([create_set(7, 2), finish(1, 7), job_event("clean", 2, 7)], False, False),
        ([create_set(7, 2), finish(1, 7), job_event("clean", 2, 7), finish(2, 7)], True, False),
        ([finish(1, 7)], False, False),
        ([finish(1, 7), create_set(7, 1)], True, False),
        ([create_set(7, 0), finish(1, 7)], False, False),
        ([create_set(7, 1), finish(1, 7), finish_set(7, 1)], False, True),
        ([create_set(7, 1), finish_set(7, 1)], False, True),
        ([create_set(7, 1), finish_set(7, 1), finish(1, 7)], False, True),
        ([create_set(7, 1), {**finish_set(7), "event": "cleanJobSet"}, finish(1, 7)], False, True),
        ([create_set(7, 1), {**EVENTS["progressJobSet"], "state": "finished"}, finish(1, 7)], True, False),
    ],
    ids=lambda native: (
        " ".join(f"{event['event']}-{event['id']}" for event in native) if isinstance(native, list) else str(native)
    ),
)
def test_finish_is_due_when_all_jobs_finished_and_set_is_open(
    native: list[Json], is_due: bool, has_set_ended: bool
) -> None:
    for state in stored_and_full_state(native):
        assert (is_finish_due(state), has_ended(state)) == (is_due, has_set_ended)


def test_finish_event_has_exactly_the_vocabulary_fields() -> None:
    jobs = [planned_job("a", disk="sda"), planned_job("b")]
    native = [
        create_set(7, jobs, node="global", props=PROPS),
        create(1, 7, type="a", params={"disk": "sda"}, props=PROPS),
        create(2, 7, type="b"),
        progress(2, 7, type="b", progress="1/2", log={"message": "not here"}, data=DATA),
        {**EVENTS["progressJobSet"], "node": "other"},
        finish(2, 7, type="b", data=DATA),
        finish(1, 7, type="a", success="0"),
    ]
    assert finish_event(stored_and_full_state(native)[1]) == {
        "event": "finishJobSet",
        "node": "global",
        "id": 7,
        "props": PROPS,
        "jobs": [
            finished_job(1, type="a", params={"disk": "sda"}, props=PROPS, success="0"),
            finished_job(2, type="b", progress="1/2"),
        ],
    }


def test_clean_event_lists_state_of_each_job() -> None:
    native = [
        create_set(7, [A, A, A, B], props=PROPS),
        finish(1, 7, type="a"),
        progress(2, 7, type="a", state="run", progress="1/2"),
        job_event("clean", 3, 7, type="a"),
        job_event("redirect", 9, 7, redirect="n2"),
    ]
    clean = clean_event(stored_and_full_state(native)[1])
    assert clean == {
        "event": "cleanJobSet",
        "node": "n1",
        "id": 7,
        "props": PROPS,
        "jobs": [
            finished_job(1, type="a"),
            {**A, "id": 2, "state": "run", "progress": "1/2"},
            {**A, "id": 3, "state": "cleaned"},
            {**B, "state": "planned"},
        ],
    }
    assert JOB_VOCABULARY.native_json(commit_events([JOB_VOCABULARY.new_event(clean)])[0]) is not None


def test_large_jobset_stores_only_count_of_finished_jobs() -> None:
    n = 300
    native = [
        create_set(7, n),
        *(create(number, 7) for number in range(n)),
        *(finish(number, 7) for number in range(n)),
    ]
    for last in (n + 1, n + 2, n + 100, 2 * n):
        stored, full = stored_and_full_state(native[:last])
        assert (stored["jobs"], stored["total"], stored["finished"]) == (None, n, full["finished"])
        assert len(to_json(stored)) <= MAX_STATE_BYTES
        assert not is_finish_due(stored)
    assert is_finish_due(stored_and_full_state(native)[0])


def test_very_large_jobset_has_a_small_state_that_can_finish() -> None:
    """The ids of the ended jobs do not fit in it: repeated events may suggest the end too early, never too late."""
    n = 900
    native = [create_set(7, n), *(finish(10**13 + number, 7) for number in range(n - 1))]
    stored, full = stored_and_full_state(native)
    assert (stored["finished"], full["finished"], is_finish_due(stored)) == (n - 1, n - 1, False)
    stored, full = stored_and_full_state([*native, finish(10**13, 7)])
    assert (is_finish_due(stored), has_exact_count(stored), is_finish_due(full)) == (True, False, False)
    stored, full = stored_and_full_state([*native, finish(10**13 + n - 1, 7)])
    assert (is_finish_due(stored), is_finish_due(full)) == (True, True)
    assert len(to_json(stored)) <= MAX_STATE_BYTES


def test_large_jobset_cleaned_with_jobs_without_ids_ends() -> None:
    listed = [{**planned_job(text=LARGE), "state": "finished", "success": "1", "message": "m"}] * 5
    stored, full = stored_and_full_state(
        [create_set(7, 5), {**create_set(7, listed), "event": "cleanJobSet"}, finish(1, 7)]
    )
    assert (stored["jobs"], has_ended(stored), has_ended(full)) == (None, True, True)


@pytest.mark.parametrize("many", [1, 150])
def test_job_created_again_counts_when_it_ends_again(many: int) -> None:
    """Also if there are too many jobs to store all of them."""
    native = [create_set(7, many + 1), *(create(number, 7) for number in range(many + 1))]
    native += [finish(number, 7, success="0") for number in range(many)]
    native += [create(0, 7, params={"try": "2"})]
    stored, full = stored_and_full_state(native)
    assert (stored["finished"], full["finished"]) == (many - 1, many - 1)
    assert full["jobs"][0] == {**planned_job("backup", **{"try": "2"}), "id": 0, "state": "created"}
    native += [finish(0, 7), finish(many, 7), *(create(number, 7) for number in range(1, many))]
    assert not is_finish_due(stored_and_full_state(native)[0]) or many == 1
    native += [finish(number, 7) for number in range(1, many)]
    stored, full = stored_and_full_state(native)
    assert (is_finish_due(stored), is_finish_due(full)) == (True, True)
    ref, end = ObjectRef("jobset", "/7"), {**finish_event(full), "jobs": []}
    assert JOB_VOCABULARY.summarize(ref, stored_and_full_state([*native, end])[0]).result == "success"


@pytest.mark.parametrize("end", [finish_set(7, 1), {**EVENTS["cleanJobSet"], "id": 7}], ids=["finished", "cleaned"])
def test_jobset_created_after_end_begins_new_run(end: Json) -> None:
    second = [create_set(7, [A, B], node="n9"), create(3, 7, type="b")]
    first = [create_set(7, 1, props=PROPS), create(1, 7), finish(1, 7), end]
    state, alone = stored_and_full_state([*first, *second])[0], stored_and_full_state(second)[0]
    times = {"createdAt": "2023-11-14T22:13:20.000004Z", "updatedAt": "2023-11-14T22:13:20.000005Z"}
    assert state == {**alone, **times}


def test_jobset_created_again_while_open_is_a_repeat() -> None:
    native = [create_set(7, [A, B], props=PROPS), create(1, 7, type="a"), finish(1, 7, type="a")]
    before, after = stored_and_full_state(native)[0], stored_and_full_state([*native, native[0]])[0]
    assert after == {**before, "updatedAt": "2023-11-14T22:13:20.000003Z"}


number = st.integers(1, 6)
text = st.sampled_from(["", "s", LARGE])
job_type = st.sampled_from(["a", "b"])
planned_jobs = st.builds(lambda kind, words: planned_job(kind, text=words), job_type, text)
jobset_events = st.one_of(
    st.builds(lambda n, kind, words: create(n, 7, type=kind, params={"text": words}), number, job_type, text),
    st.builds(lambda n, kind, words: progress(n, 7, type=kind, state=words), number, job_type, text),
    st.builds(lambda n: job_event("redirect", n, 7, redirect="n2"), number),
    st.builds(lambda n, kind, words: {**finish(n, 7, type=kind), "message": words}, number, job_type, text),
    st.builds(lambda n, kind: job_event("clean", n, 7, type=kind), number, job_type),
    st.builds(lambda jobs: create_set(7, jobs), st.lists(planned_jobs, max_size=4)),
    st.builds(lambda words: {**EVENTS["progressJobSet"], "state": words, "data": {"text": words}}, text),
    st.builds(lambda ns, words: finish_set(7, *ns, props={"a": words}), st.lists(number, max_size=3), text),
    st.builds(lambda jobs: {**EVENTS["cleanJobSet"], "jobs": [{**job, "state": "s"} for job in jobs]},
              st.lists(planned_jobs, max_size=3)),
)  # fmt: skip


@given(st.lists(jobset_events, min_size=1, max_size=14))
def test_fold_event_by_event_agrees_with_full_state(native: list[Json]) -> None:
    stored, full = stored_state(native, "jobset", "/7"), full_state(native, "jobset", "/7")
    if stored is None or full is None:
        assert stored == full
        return
    assert without(dict(stored), "ended", "failures", "failed") == omit_large_fields(stored, full)
    assert (is_finish_due(stored), has_ended(stored)) == (is_finish_due(full), has_ended(full))
    assert len(to_json(stored)) <= MAX_STATE_BYTES


@given(st.lists(jobset_events, min_size=1, max_size=14))
def test_finish_and_clean_events_always_follow_vocabulary(native: list[Json]) -> None:
    state = full_state(native, "jobset", "/7")
    if state is None:
        return
    ends = [clean_event(state), *([finish_event(state)] if is_finish_due(state) else [])]
    for event in commit_events([JOB_VOCABULARY.new_event(end) for end in ends]):
        assert JOB_VOCABULARY.native_json(event) is not None


def test_total_replaces_number_of_planned_jobs() -> None:
    events = [create_set(7, [], total=2), create(1, 7), finish(1, 7)]
    for state in stored_and_full_state(events):
        assert (state["total"], state["finished"], is_finish_due(state)) == (2, 1, False)
    assert all(map(is_finish_due, stored_and_full_state([*events, finish(2, 7)])))


@pytest.mark.parametrize("total", [0, 1, 1_000_001, "two"])
def test_invalid_total_is_refused(total: object) -> None:
    with pytest.raises(ValueError, match="total"):
        JOB_VOCABULARY.new_event(create_set(7, 2, total=total))
