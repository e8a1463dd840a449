"""The states of job types: open runs, last runs, and numbers of the last 30 days."""

import math
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from chalicelib.domain import timestamps, vocabularies
from chalicelib.domain.events.event import Event, encode
from chalicelib.domain.events.ids import Id
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.domain.vocabularies.job.duration_histogram import (
    MAX_RELATIVE_ERROR,
    MIN_DURATION_S,
    add_count,
    bucket_of,
    percentile,
)
from chalicelib.domain.vocabularies.job.job_types import (
    DAYS,
    MAX_LAST_RUNS,
    MAX_OPEN_RUNS,
    OUTCOMES,
    recent_days,
    success_rate,
)
from tests.conformance.anyjob.anyjob import Json, create, finish, job_event, progress

NOON_US = 1_763_467_200_000_000
"""2025-11-18T12:00:00Z"""
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
BACKUP = ObjectRef("jobType", "/backup")
MAX_STATE_BYTES = 64 * 1024

Timed = tuple[float, Json]
"""Seconds after noon, and an event."""


def fail(number: int, message: str = "exit code 1") -> Json:
    return {**finish(number, success="0"), "message": message}


def clean(number: int) -> Json:
    return job_event("clean", number)


def events(timed: Iterable[Timed]) -> list[Event]:
    """The events, each in a commit of its own."""
    return [
        Event(
            Id(1, session, 1),
            NOON_US + round(at_s * SECOND_US),
            NOON_US + round(at_s * SECOND_US),
            encode(JOB_VOCABULARY.new_event(native)).decode(),
        )
        for session, (at_s, native) in enumerate(timed, start=1)
    ]


def job_type(*timed: Timed) -> State:
    """The state of the type `backup`. It is written to JSON and read back after each event, like a record."""
    state: State | None = None
    own = [event for event in events(timed) if BACKUP in vocabularies.affected_objects(event.fields)]
    for event in own:
        before = to_json(state)
        after = vocabularies.fold("jobType", state, event)
        assert to_json(state) == before
        state = from_json(to_json(after))
    assert state is not None
    assert vocabularies.is_full_state("jobType", state)
    assert vocabularies.full_state("jobType", own) == state
    return state


def job(number: int, *timed: Timed) -> State:
    """The state of a job after the same events."""
    ref = ObjectRef("job", f"/{number}")
    state = vocabularies.full_state(
        "job", [event for event in events(timed) if ref in vocabularies.affected_objects(event.fields)]
    )
    assert state is not None
    return state


def at(seconds: float) -> str:
    return timestamps.iso(NOON_US + round(seconds * SECOND_US))


def short(runs: Sequence[Any]) -> list[tuple[int, int, str]]:
    return [(run["id"], run["run"], run["outcome"]) for run in runs]


def test_type_of_first_open_run_has_no_statistics() -> None:
    state = job_type((0, create(1, props={"author": "anna"})))
    assert state == {
        "type": "backup",
        "createdAt": at(0),
        "updatedAt": at(0),
        "open": 1,
        "openRuns": [{"id": 1, "run": 1, "node": "n1", "startedAt": at(0), "author": "anna"}],
        "runs": [],
        "consecutiveFailures": 0,
        "lastSuccess": None,
        "lastFailure": None,
        "earlier": {"failures": 0, "success": None, "failure": None},
        "days": [],
    }


@pytest.mark.parametrize(
    ("rid", "expected"), [("5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278", True), ("", False), ("x" * 37, False)]
)
def test_open_run_has_the_id_of_its_client(rid: str, expected: bool) -> None:
    state = vocabularies.fold(BACKUP.collection, None, events([(0, create(1, props={"rid": rid}))])[0])
    assert state is not None
    assert state["openRuns"][0].get("rid") == (rid if expected else None)


def test_end_of_run_moves_it_to_the_last_runs() -> None:
    state = job_type((0, create(1, props={"author": "anna"})), (90, {**fail(1, "disk full\nin /srv"), "node": "n2"}))
    run = {
        "id": 1,
        "run": 1,
        "node": "n2",
        "outcome": "failure",
        "startedAt": at(0),
        "endedAt": at(90),
        "durationS": 90.0,
        "error": "disk full",
        "author": "anna",
    }
    assert (state["open"], state["openRuns"], state["runs"]) == (0, [], [run])
    assert (state["consecutiveFailures"], state["lastFailure"], state["lastSuccess"]) == (1, run, None)
    (day,) = state["days"]
    assert day == {"day": "2025-11-18", "success": 0, "failure": 1, "timeout": 0, "durations": {bucket_of(90): 1}}


@pytest.mark.parametrize(
    ("ends", "failures", "success", "failure"),
    [
        ([finish], 0, 1, None),
        ([fail], 1, None, 1),
        ([clean], 1, None, 1),
        ([finish, fail, clean], 2, 1, 3),
        ([fail, fail, finish], 0, 3, 2),
        ([finish, *[fail] * MAX_LAST_RUNS], MAX_LAST_RUNS, 1, MAX_LAST_RUNS + 1),
        ([finish, *[fail] * (MAX_LAST_RUNS + 5)], MAX_LAST_RUNS + 5, 1, MAX_LAST_RUNS + 6),
        ([fail, *[finish] * (MAX_LAST_RUNS + 5)], 0, MAX_LAST_RUNS + 6, 1),
    ],
)
def test_consecutive_failures_count_since_last_success(
    ends: list[Any], failures: int, success: int | None, failure: int | None
) -> None:
    timed = [(n, event) for n, end in enumerate(ends, start=1) for event in (create(n), end(n))]
    state = job_type(*timed)
    last = [None if run is None else run["id"] for run in (state["lastSuccess"], state["lastFailure"])]
    assert (state["consecutiveFailures"], *last) == (failures, success, failure)
    assert len(state["runs"]) == min(len(ends), MAX_LAST_RUNS)


@pytest.mark.parametrize(
    ("timed", "expected", "open_runs"),
    [
        ([(0, create(1)), (1, create(1)), (2, finish(1))], [(1, 1, "success")], 0),
        ([(0, finish(1)), (1, clean(1)), (2, create(2))], [], 1),
        ([(0, create(1)), (1, progress(1)), (2, job_event("redirect", 1, redirect="n2"))], [], 1),
        ([(0, create(1)), (1, finish(1)), (2, finish(1))], [(1, 1, "success")], 0),
        ([(0, create(1)), (1, finish(1)), (2, fail(1))], [(1, 1, "failure")], 0),
        ([(0, create(1)), (1, clean(1)), (2, finish(1))], [(1, 1, "success")], 0),
        ([(0, create(1)), (1, finish(1)), (2, create(1))], [(1, 1, "success")], 1),
        ([(0, create(1)), (1, fail(1)), (2, create(1)), (3, finish(1))], [(1, 2, "success"), (1, 1, "failure")], 0),
        (
            [(0, create(1)), (1, fail(1)), (2, create(1)), (3, finish(1)), (4, fail(1))],
            [(1, 2, "failure"), (1, 1, "failure")],
            0,
        ),
        (
            [(0, create(1)), (0, create(2)), (1, fail(1)), (2, finish(2)), (3, finish(1))],
            [(1, 1, "success"), (2, 1, "success")],
            0,
        ),
    ],
    ids=[
        "repeated create",
        "end of an unknown job",
        "other events",
        "repeated finish",
        "another result",
        "late finish",
        "open again",
        "second run",
        "second run ends twice",
        "ends twice, with another between",
    ],
)
def test_each_run_counts_once(timed: list[Timed], expected: list[tuple[int, int, str]], open_runs: int) -> None:
    state = job_type((0, create(99)), (0, finish(99)), *timed)
    assert (short(state["runs"])[:-1], state["open"]) == (expected, open_runs)
    (day,) = state["days"]
    counts = {name: sum(outcome == name for _, _, outcome in expected) for name in OUTCOMES}
    assert {name: day[name] for name in OUTCOMES} == {**counts, "success": counts["success"] + 1}
    assert sum(day["durations"].values()) == 1 + counts["success"] + counts["failure"]


def test_run_agrees_with_its_job() -> None:
    timed = [
        (0, create(1, props={"author": "anna"})), (5, finish(1)), (9, create(1)), (20, fail(1, "x" * 900)),
    ]  # fmt: skip
    last = job(1, *timed)
    run = job_type(*timed)["runs"][0]
    assert {**run, "error": last["error"]} == {
        "id": 1, "run": 2, "node": last["node"], "outcome": last["outcome"], "startedAt": last["createdAt"],
        "endedAt": last["finishedAt"], "durationS": last["durationS"], "error": "x" * 900,
    }  # fmt: skip
    assert (len(run["error"]), last["seconds"]) == (200, 11.0)


def test_open_runs_beyond_the_limit_are_counted() -> None:
    numbers = range(1, MAX_OPEN_RUNS + 51)
    started = job_type(*((number, create(number)) for number in numbers))
    assert (started["open"], len(started["openRuns"])) == (MAX_OPEN_RUNS + 50, MAX_OPEN_RUNS)
    timed = [
        *((number, create(number)) for number in numbers),
        *((1_000 + number, finish(number)) for number in numbers),
    ]
    ended = job_type(*timed, (5_000, finish(numbers[-1])))
    assert (ended["open"], ended["openRuns"]) == (0, [])
    assert ended["days"][0]["success"] == len(numbers)
    assert sum(ended["days"][0]["durations"].values()) == MAX_OPEN_RUNS
    assert {run["startedAt"] for run in ended["runs"]} == {None}


def test_state_of_busy_type_is_bounded() -> None:
    timed: list[Timed] = []
    for number in range(1, 1_500):
        day_s = number // 40 * DAY_US / SECOND_US
        timed += [(day_s + number, create(number)), (day_s + 2 * number, fail(number, "y" * 1_000))]
    timed += [(timed[-1][0] + number, create(number)) for number in range(2_000, 2_500)]
    assert len(to_json(job_type(*timed))) <= MAX_STATE_BYTES


def test_days_older_than_the_period_are_dropped() -> None:
    per_day = DAY_US // SECOND_US
    timed = [
        (day * per_day, event) for day in range(DAYS + 2) for event in (create(day), finish(day))
    ]  # fmt: skip
    state = job_type(*timed)
    assert [day["day"] for day in state["days"]] == [f"2025-11-{day}" for day in range(20, 31)] + [
        f"2025-12-{day:02}" for day in range(1, 20)
    ]
    assert len(recent_days(state, date(2025, 12, 19))) == DAYS
    assert [day["day"] for day in recent_days(state, date(2026, 1, 17))] == ["2025-12-19"]
    assert recent_days(state, date(2026, 1, 18)) == []


def test_end_in_another_type_changes_no_other_type() -> None:
    state = job_type((0, create(1)), (1, finish(1, type="restore")))
    assert (state["open"], state["runs"]) == (1, [])


def test_event_with_empty_type_has_no_job_type() -> None:
    (event,) = events([(0, create(1))])
    fields = event.fields._replace(type=("job", "create", "n1", ""))
    assert vocabularies.affected_objects(fields) == (ObjectRef("job", "/1"),)


@pytest.mark.parametrize(
    ("timed", "state", "result"),
    [
        ([(0, create(1))], "running", None),
        ([(0, create(1)), (1, finish(1))], "idle", "success"),
        ([(0, create(1)), (1, clean(1)), (2, create(2))], "running", "timeout"),
    ],
)
def test_summary_has_result_of_last_run(timed: list[Timed], state: str, result: str | None) -> None:
    summary = vocabularies.summarize(BACKUP, job_type(*timed))
    assert (summary.path, summary.label, summary.key) == ("/backup", "backup", None)
    assert (summary.state, summary.result, summary.type) == (state, result, "backup")
    assert (summary.created_at, summary.updated_at) == (at(0), at(timed[-1][0]))


durations = st.lists(st.floats(MIN_DURATION_S, 10_000_000), min_size=1, max_size=60)


@given(st.lists(durations, min_size=1, max_size=4), st.sampled_from([1, 50, 90, 99, 100]))
def test_percentile_is_within_the_stated_error(days: list[list[float]], percent: float) -> None:
    histograms = []
    for day in days:
        histogram: dict[str, int] = {}
        for duration_s in day:
            histogram = add_count(histogram, duration_s, 1)
        histograms.append(histogram)
    ordered = sorted(duration_s for day in days for duration_s in day)
    exact = ordered[math.ceil(len(ordered) * percent / 100) - 1]
    estimated = percentile(histograms, percent)
    assert estimated == pytest.approx(exact, rel=MAX_RELATIVE_ERROR + 1e-9)


@given(durations)
def test_histogram_without_its_counts_is_empty(numbers: list[float]) -> None:
    histogram: dict[str, int] = {}
    for sign in (1, -1):
        for duration_s in numbers:
            histogram = add_count(histogram, duration_s, sign)
    assert (histogram, percentile([histogram], 50)) == ({}, None)


steps = st.lists(st.tuples(st.integers(1, 8), st.sampled_from([create, finish, fail, clean])), max_size=60)


@given(steps, st.floats(0.001, 90_000))
def test_fold_agrees_with_the_jobs(choices: list[tuple[int, Any]], step_s: float) -> None:
    """With few jobs every run is remembered, so the type says about each run what its job said when it ended last."""
    timed = [(0.0, create(9)), *((n * step_s, event(number)) for n, (number, event) in enumerate(choices, start=1))]
    state = job_type(*timed)
    ended: dict[tuple[int, int], State] = {}
    jobs: dict[int, State | None] = {}
    for event in events(timed):
        native = JOB_VOCABULARY.native_json(event)
        assert native is not None
        number = native["id"]
        jobs[number] = now = vocabularies.fold("job", jobs.get(number), event)
        if now is not None and "finishedAt" in now:
            ended.pop((number, now["run"]), None)
            ended[number, now["run"]] = now
    runs = [
        {
            "id": number, "run": run, "node": one["node"], "outcome": one["outcome"], "startedAt": one["createdAt"],
            "endedAt": one["finishedAt"], "durationS": one["durationS"],
            **({"error": one["error"]} if "error" in one else {}),
        }
        for (number, run), one in reversed(ended.items())
    ]  # fmt: skip
    assert state["runs"] == runs[:MAX_LAST_RUNS]
    assert state["open"] == sum(one is not None and "finishedAt" not in one for one in jobs.values())
    last_day = date.fromisoformat(at(timed[-1][0])[:10])
    days = recent_days(state, last_day)
    kept = [run for run in runs if any(day["day"] == run["endedAt"][:10] for day in days)]
    assert success_rate(days) == (
        pytest.approx(sum(run["outcome"] == "success" for run in kept) / len(kept)) if kept else None
    )
