"""The alarms of random histories, compared with a second computation: none is missing, none is repeated.

Histories contain changes of the configuration, pauses, clocks that are set, changes of local time, and workers that
crash, start over or continue from a saved state. Events fall exactly on the limits of slots and durations.
"""

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


@st.composite
def expectations(draw: st.DrawFn) -> Expectation:
    fields: dict[str, Any] = dict(draw(st.sampled_from(SCHEDULES)))
    fields |= {name: draw(st.sampled_from(values)) for name, values in LIMITS.items()}
    if not any(fields.get(name) for name in ("every", "cron", *LIMITS)):
        fields["max_duration"] = 300
    subject = draw(
        st.sampled_from([{"type": "backup"}, {"type": "backup"}, {"type": "backup", "node": "n2"}, {"key": "/job/1"}])
    )
    return Expectation(**fields, **subject, paused=draw(st.sampled_from([False, False, False, True])))


Jobs = st.integers(1, 3)
Steps = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 29, 30, 59, 60, 61, 100, 119, 120, 300, 301, 900, 3600, 7200])),
    st.tuples(st.just("set clock"), st.sampled_from([-7200, -100, -1, 1, 100, 3600])),
    st.tuples(st.just("wait until due"), st.sampled_from([-60 * S, -1, 0, 1])),
    st.tuples(st.just("put"), expectations()),
    st.tuples(st.just("create"), Jobs, st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("create"), Jobs, st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("finish"), Jobs, st.booleans()),
    st.tuples(st.sampled_from(["progress", "clean", "redirect", "other"]), Jobs),
    st.tuples(st.just("check"), st.booleans(), st.booleans(), st.booleans()),
)


def apply_step(timeline: Timeline, step: tuple[Any, ...]) -> None:
    match step:
        case ("wait" | "set clock", int(seconds)):
            timeline.clock_us += seconds * S
        case ("wait until due", int(offset_us)):
            due_us = timeline.load(is_cached=False).next_due_us
            if due_us is not None and due_us - timeline.clock_us < 24 * 3600 * S:
                timeline.clock_us = due_us + offset_us
        case ("put", Expectation() as expectation):
            timeline.put(expectation)
        case ("create", int(job), str(node)):
            timeline.job("create", job, node=node)
        case ("finish", int(job), bool(is_success)):
            timeline.job("finish", job, is_success=is_success)
        case ("other", int(job)):
            timeline.job("create", job, type="restore")
        case ("check", bool(is_cached), bool(saves), bool(writes)):
            timeline.check(is_cached, saves, writes)
        case (str(name), int(job)):
            timeline.job(name, job)


@given(
    start=st.sampled_from(STARTS),
    first=expectations(),
    steps=st.lists(Steps, max_size=40),
)
@settings(max_examples=600, deadline=None)
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
@settings(max_examples=200, deadline=None)
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
