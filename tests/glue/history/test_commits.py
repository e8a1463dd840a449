"""Spans of sessions, and detection of loaded and duplicate commits."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue_jobs.errors import Conflict
from glue_jobs.lake.lake import EventFile, Load, loaded_logs
from glue_jobs.transforms.commits import LoadedLog, drop_duplicates, drop_loaded, merge_spans, session_spans

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


def sessions_in(spans: list[tuple[int, int]]) -> list[int]:
    return [session for first, last in spans for session in range(first, last + 1)]


@given(SESSIONS)
def test_session_spans_contain_exactly_the_sessions(sessions: list[int]) -> None:
    assert sessions_in(session_spans(sessions)) == sorted(set(sessions))


@given(SESSIONS)
def test_session_spans_are_not_adjacent(sessions: list[int]) -> None:
    spans = session_spans(sessions)
    assert all(later[0] - earlier[1] > 1 for earlier, later in pairwise(spans))


@given(st.lists(SESSIONS))
def test_merge_spans_equals_spans_of_all_sessions(parts: list[list[int]]) -> None:
    merged = merge_spans(span for sessions in parts for span in session_spans(sessions))
    assert merged == session_spans(session for sessions in parts for session in sessions)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 30))), SESSIONS, SESSIONS)
def test_drop_loaded_keeps_sessions_outside_spans(
    commits: list[tuple[int, int]], of_one: list[int], of_two: list[int]
) -> None:
    loaded = {
        server: LoadedLog(session_spans(loaded_sessions), {})
        for server, loaded_sessions in ((1, of_one), (2, of_two))
        if loaded_sessions
    }
    loaded_sessions = {1: of_one, 2: of_two, 3: []}
    assert ids_of(drop_loaded(a_batch(*commits), loaded, FILE)) == [
        commit for commit in commits if commit[1] not in loaded_sessions[commit[0]]
    ]


@pytest.mark.parametrize(
    ("session", "is_new"),
    [
        *((session, True) for session in (0, 2, 6, 9_998, 10_001, 2**53)),
        *((session, False) for session in (1, 3, 4, 5, 9_999, 10_000)),
    ],
)
def test_drop_loaded_includes_ends_of_spans(session: int, is_new: bool) -> None:
    assert ids_of(drop_loaded(a_batch((1, session)), {1: LoadedLog(BOUNDARY, {})}, FILE)) == (
        [(1, session)] if is_new else []
    )


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 5)), max_size=20), st.lists(st.integers(0, 20)))
def test_drop_duplicates_across_batches_keeps_each_once(commits: list[tuple[int, int]], cuts: list[int]) -> None:
    ordered = sorted(commits)
    edges = sorted({0, len(ordered), *(cut for cut in cuts if cut <= len(ordered))})
    batches = [a_batch(*ordered[begin:end]) for begin, end in pairwise(edges)]
    assert ids_of(*drop_duplicates([a_batch(), *batches, a_batch()], [FILE])) == sorted(set(commits))


@pytest.mark.parametrize("between", [[], [a_batch()], [a_batch((1, 1)), a_batch()]])
def test_drop_duplicates_different_content_raises_conflict(between: list[pa.RecordBatch]) -> None:
    with pytest.raises(Conflict, match=f"{FILE} and {FILE} have different content for session 1 of server 1"):
        list(drop_duplicates([a_batch((1, 1)), *between, a_batch((1, 1), body="[1]")], [FILE]))


def test_drop_duplicates_same_session_of_other_server() -> None:
    assert ids_of(*drop_duplicates([a_batch((1, 1)), a_batch((2, 1), body="[1]")], [FILE])) == [(1, 1), (2, 1)]


def test_loaded_logs_merge_spans_of_all_files() -> None:
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
    assert loaded_logs(loads) == {1: LoadedLog([(1, 8)], {8: 70, 6: 60}), 2: LoadedLog([(1, 1)], {1: 10})}


def test_drop_loaded_other_time_raises_conflict() -> None:
    loaded = {1: LoadedLog([(1, 9)], {4: 1, 8: 1})}
    assert ids_of(drop_loaded(a_batch((1, 8)), loaded, FILE)) == []
    with pytest.raises(Conflict, match=f"{FILE}: session 8 of server 1 differs"):
        drop_loaded(a_batch((1, 8)), {1: LoadedLog([(1, 9)], {4: 1, 8: 2})}, FILE)
