"""The ended jobs of a set: the same number as in its full state, whatever the order of the events."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chalicelib.domain.vocabularies.job.ended_jobs import EndedJobs
from chalicelib.domain.vocabularies.job.jobsets import full_jobset, has_ended
from tests.conformance.anyjob.anyjob import create, create_set, finish, finish_set, job_event, progress

JOBS = st.integers(1, 4)
EVENTS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.one_of(
        JOBS.map(lambda number: create(number, 7)),
        JOBS.map(lambda number: finish(number, 7)),
        JOBS.map(lambda number: progress(number, 7)),
        JOBS.map(lambda number: job_event("clean", number, 7)),
        st.just(create_set(7, 3)),
        st.just(finish_set(7)),
        st.just({"event": "cleanJobSet", "node": "n1", "id": 7, "props": {}, "jobs": []}),
    ),
    max_size=12,
)


@given(EVENTS, st.integers(0, 12))
def test_count_equals_that_of_full_state(events: list[dict[str, Any]], place: int) -> None:
    full = full_jobset(enumerate(events))
    if full is None or has_ended(full):
        return  # The jobs in the end event count then, not those that have ended.
    ended = EndedJobs()
    ended.fold(events[:place])
    assert ended.count_after(events[place:]) == full["finished"]
    ended.fold(events[place:])
    assert (len(ended.ids), ended.has_set_ended) == (full["finished"], False)
