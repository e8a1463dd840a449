"""The alarms of random histories, compared with a second computation: none is missing, none is repeated.

Histories contain changes of the configuration, pauses, clocks that are set, changes of local time, and workers that
crash, start over or continue from a saved state. Events fall exactly on the limits of slots and durations.
"""

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.domain import timestamps
from chalicelib.domain.expectations.expectation import Expectation
from tests.domain.expectations.timeline import Timeline

S = 1_000_000
STARTS = ("2026-03-29T00:40:00Z", "2026-10-25T00:10:00Z", "2026-06-01T12:00:00Z")
"""Shortly before the changes of local time in Berlin, and any other time."""

SCHEDULES: list[dict[str, Any]] = [
    {},
    {"every": 60, "grace": 0},
    {"every": 300},
    {"every": 300, "grace": 40},
    {"every": 120, "grace": 400},
    {"every": 3600, "grace": 600},
    {"cron": "*/5 * * * *", "grace": 60},
    {"cron": "* * * * *"},
    {"cron": "0,10,50 * * * *", "grace": 600},
    {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"},
    {"cron": "0,30 2,3 * * *", "time_zone": "Europe/Berlin", "grace": 0},
    {"cron": "*/20 * * * *", "time_zone": "Europe/Berlin", "grace": 90},
]
LIMITS: dict[str, list[Any]] = {
    "max_duration": [None, 1, 100, 300],
    "max_silence": [None, 60, 100],
    "min_interval": [None, 30, 300],
}
SUBJECTS: list[dict[str, Any]] = [{"type": "backup"}, {"type": "backup", "node": "n2"}, {"key": "/job/1"}]

Schedules = st.sampled_from(SCHEDULES)
Limits = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in LIMITS.items()})
Changes = st.one_of(
    st.just({"paused": True}),
    st.just({"paused": False}),
    st.sampled_from([{"every": None, "cron": None, "time_zone": None, "grace": None} | fields for fields in SCHEDULES]),
    Limits,
    st.sampled_from([{"type": None, "node": None, "key": None} | fields for fields in SUBJECTS]),
)
Jobs = st.sampled_from([1, 1, 1, 2, 3])
Waits = st.sampled_from([0, 1, 29, 30, 59, 60, 61, 100, 119, 120, 300, 301, 900, 3600, 7200])
Offsets = st.sampled_from([-60 * S - 1, -60 * S, -30 * S, -1, 0, 1])
Steps = st.one_of(
    st.tuples(st.just("wait"), Waits),
    st.tuples(st.just("set clock"), st.sampled_from([-7200, -100, -1, 1, 100, 3600])),
    st.tuples(st.just("wait until due"), Offsets),
    st.tuples(st.just("wait until slot"), Offsets),
    st.tuples(st.just("change"), Changes),
    st.tuples(st.just("create"), Jobs, st.sampled_from(["n1", "n2", "n2"])),
    st.tuples(st.just("finish"), Jobs, st.booleans()),
    st.tuples(st.just("run"), Jobs, Waits),
    st.tuples(st.sampled_from(["progress", "progress", "clean", "redirect", "other"]), Jobs),
    st.tuples(st.just("check"), st.booleans(), st.booleans(), st.booleans()),
)


@st.composite
def expectations(draw: st.DrawFn) -> Expectation:
    fields: dict[str, Any] = draw(Schedules) | draw(Limits) | draw(st.sampled_from(SUBJECTS))
    if not any(fields.get(name) for name in ("every", "cron", *LIMITS)):
        fields["max_duration"] = 300
    return Expectation(**fields)


def apply_step(timeline: Timeline, step: tuple[Any, ...]) -> None:
    match step:
        case ("wait" | "set clock", int(seconds)):
            timeline.clock_us += seconds * S
        case ("wait until due" | "wait until slot" as what, int(offset_us)):
            fold = timeline.load(is_cached=False)
            time_us = fold.next_due_us if what.endswith("due") else fold.expected_us
            if time_us is not None and time_us - timeline.clock_us < 24 * 3600 * S:
                timeline.clock_us = time_us + offset_us
        case ("change", dict(fields)):
            with suppress(ValueError):  # Some changes leave nothing to expect.
                timeline.put(Expectation(**dict(timeline.expectation) | fields))
        case ("check", bool(is_cached), bool(saves), bool(writes)):
            timeline.check(is_cached, saves, writes)
        case _:
            add_job_events(timeline, step)


def add_job_events(timeline: Timeline, step: tuple[Any, ...]) -> None:
    match step:
        case ("create", int(job), str(node)):
            timeline.job("create", job, node=node)
        case ("finish", int(job), bool(is_success)):
            timeline.job("finish", job, is_success=is_success)
        case ("run", int(job), int(seconds)):
            timeline.job("create", job, node="n2")
            timeline.clock_us += seconds * S
            timeline.job("finish", job)
        case ("other", int(job)):
            timeline.job("create", job, type="restore")
        case (str(name), int(job)):
            timeline.job(name, job)


@given(
    start=st.sampled_from(STARTS),
    first=expectations(),
    steps=st.lists(Steps, max_size=40),
)
@settings(max_examples=1_500, deadline=None)
def test_alarms_match_second_computation(start: str, first: Expectation, steps: list[tuple[Any, ...]]) -> None:
    timeline = Timeline(timestamps.parse(start))
    timeline.put(first)
    for step in steps:
        apply_step(timeline, step)
    timeline.verify()


@given(
    first=expectations(),
    steps=st.lists(Steps, max_size=30),
)
@settings(max_examples=300, deadline=None)
def test_cached_fold_decides_like_new_one(first: Expectation, steps: list[tuple[Any, ...]]) -> None:
    timeline = Timeline(timestamps.parse(STARTS[0]))
    timeline.put(first)
    for step in steps:
        apply_step(timeline, step)
    folds = [timeline.load(is_cached) for is_cached in (False, True)]
    for fold in folds:
        fold.advance(timeline.now_us)
    assert [list(fold.pending) for fold in folds[1:]] == [list(folds[0].pending)]
    assert folds[0].next_due_us == folds[1].next_due_us
