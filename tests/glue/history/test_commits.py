"""Sessions and spans of them, by themselves: what is known, what is new, what is told twice."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue_jobs.errors import Conflict
from glue_jobs.lake.lake import EventFile, Load, known_logs
from glue_jobs.transforms.commits import Known, each_once, joined_spans, spans_of, unknown

SESSIONS = st.lists(st.integers(1, 30))
FILE = "data/a.json.gz"
BOUNDARY = [(1, 1), (3, 5), (9_999, 10_000)]
SCHEMA = pa.schema(
    {
        "server": pa.int32(),
        "session": pa.int64(),
        "at": pa.int64(),
        "n": pa.int32(),
        "body": pa.string(),
        "z": pa.binary(),
        "file": pa.int32(),
    }
)


def a_batch(*commits: tuple[int, int], body: str = "[]") -> pa.RecordBatch:
    rows = [
        {"server": server, "session": session, "at": 1, "n": 1, "body": body, "file": 0} for server, session in commits
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def ids_of(*batches: pa.RecordBatch) -> list[tuple[int, int]]:
    return [(row["server"], row["session"]) for batch in batches for row in batch.to_pylist()]


def within(spans: list[tuple[int, int]]) -> list[int]:
    return [session for first, last in spans for session in range(first, last + 1)]


@given(SESSIONS)
def test_spans_hold_the_sessions_and_no_others(sessions: list[int]) -> None:
    assert within(spans_of(sessions)) == sorted(set(sessions))


@given(SESSIONS)
def test_spans_are_as_few_as_can_be(sessions: list[int]) -> None:
    spans = spans_of(sessions)
    assert all(later[0] - earlier[1] > 1 for earlier, later in pairwise(spans))


@given(st.lists(SESSIONS))
def test_spans_joined_are_those_of_all_sessions_together(parts: list[list[int]]) -> None:
    joined = joined_spans(span for sessions in parts for span in spans_of(sessions))
    assert joined == spans_of(session for sessions in parts for session in sessions)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 30))), SESSIONS, SESSIONS)
def test_unknown_are_those_in_no_span_of_their_server(
    commits: list[tuple[int, int]], of_one: list[int], of_two: list[int]
) -> None:
    known = {server: Known(spans_of(had), {}) for server, had in ((1, of_one), (2, of_two)) if had}
    had = {1: of_one, 2: of_two, 3: []}
    assert ids_of(unknown(a_batch(*commits), known, FILE)) == [one for one in commits if one[1] not in had[one[0]]]


@pytest.mark.parametrize(
    ("session", "is_new"),
    [
        *((session, True) for session in (0, 2, 6, 9_998, 10_001, 2**53)),
        *((session, False) for session in (1, 3, 4, 5, 9_999, 10_000)),
    ],
)
def test_the_ends_of_a_span_are_in_it(session: int, is_new: bool) -> None:
    assert ids_of(unknown(a_batch((1, session)), {1: Known(BOUNDARY, {})}, FILE)) == ([(1, session)] if is_new else [])


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 5)), max_size=20), st.lists(st.integers(0, 20)))
def test_each_comes_once_wherever_batches_end(commits: list[tuple[int, int]], cuts: list[int]) -> None:
    ordered = sorted(commits)
    edges = sorted({0, len(ordered), *(cut for cut in cuts if cut <= len(ordered))})
    batches = [a_batch(*ordered[begin:end]) for begin, end in pairwise(edges)]
    assert ids_of(*each_once([a_batch(), *batches, a_batch()], [FILE])) == sorted(set(commits))


@pytest.mark.parametrize("between", [[], [a_batch()], [a_batch((1, 1)), a_batch()]])
def test_another_commit_under_the_same_number_is_a_conflict_wherever_batches_end(between: list[pa.RecordBatch]) -> None:
    with pytest.raises(Conflict, match=f"{FILE} and {FILE} tell different things about session 1 of server 1"):
        list(each_once([a_batch((1, 1)), *between, a_batch((1, 1), body="[1]")], [FILE]))


def test_the_same_number_of_another_server_is_no_conflict() -> None:
    assert ids_of(*each_once([a_batch((1, 1)), a_batch((2, 1), body="[1]")], [FILE])) == [(1, 1), (2, 1)]


def test_what_is_known_of_a_server_are_the_spans_of_all_its_files() -> None:
    loads = [
        Load(
            1,
            ["a"],
            [
                EventFile(1, "2026-11-01", "x", 1, [(1, 3), (7, 8)], 70),
                EventFile(2, "2026-11-01", "y", 1, [(1, 1)], 10),
            ],
        ),
        Load(2, ["b"], [EventFile(1, "2026-11-02", "z", 1, [(4, 6)], 60)]),
    ]
    assert known_logs(loads) == {1: Known([(1, 8)], {8: 70, 6: 60}), 2: Known([(1, 1)], {1: 10})}


def test_a_known_session_with_another_time_is_of_another_log() -> None:
    known = {1: Known([(1, 9)], {4: 1, 8: 1})}
    assert ids_of(unknown(a_batch((1, 8)), known, FILE)) == []
    with pytest.raises(Conflict, match=f"{FILE}: session 8 of server 1 is another"):
        unknown(a_batch((1, 8)), {1: Known([(1, 9)], {4: 1, 8: 2})}, FILE)
