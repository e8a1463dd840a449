"""Single rules of the alarms, each at its limits."""

from typing import Any

import pytest

from chalicelib.domain.expectations.alarm import Alarm, missed
from chalicelib.domain.expectations.expectation import Expectation, Version
from chalicelib.domain.expectations.facts import JobFact
from chalicelib.domain.expectations.fold import MAX_OPEN_RUNS, ExpectationFold

S = 1_000_000
START = 1_700_000_000 * S


def fold_of(**fields: Any) -> ExpectationFold:
    """A fold of an expectation that exists since just before `START`."""
    expectation = Expectation(**({"type": "backup"} | fields))
    return ExpectationFold([Version(expectation, 0, START - 1)])


def start(fold: ExpectationFold, seconds: float, job: int = 1) -> None:
    fold.apply_job(JobFact(START + round(seconds * S), "create", job, "backup", "n1"))


def finish(fold: ExpectationFold, seconds: float, job: int = 1, is_success: bool = True) -> None:
    fold.apply_job(JobFact(START + round(seconds * S), "finish", job, "backup", "n1", is_success))


def kinds(fold: ExpectationFold, seconds: float) -> list[str]:
    """The kinds of all alarms until then."""
    fold.advance(START + round(seconds * S))
    return [alarm.kind for alarm in fold.pending.values()]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(3_539, ["missed"]), (3_540, []), (3_600, []), (3_900, []), (3_900.000_001, ["missed", "late"])],
    ids=["too-early", "early", "exact", "end-of-grace", "after-grace"],
)
def test_start_belongs_to_slot_within_limits(seconds: float, expected: list[str]) -> None:
    """A cron slot one hour after the start of the expectation, with a grace period of 5 minutes."""
    hour = START // S // 3600 * 3600 * S  # The slots are at full hours.
    expectation = Expectation(type="backup", cron="0 * * * *")
    fold = ExpectationFold([Version(expectation, 0, hour)])
    fold.apply_job(JobFact(hour + round(seconds * S), "create", 1, "backup", "n1"))
    fold.advance(hour + 3_901 * S)
    assert [alarm.kind for alarm in fold.pending.values()] == expected


def test_interval_counts_from_last_start() -> None:
    fold = fold_of(every="1h")
    start(fold, 1_000)
    assert kinds(fold, 1_000 + 3_900) == []
    assert kinds(fold, 1_000 + 3_901) == ["missed"]
    assert kinds(fold, 1_000 + 7_501) == ["missed", "missed"]


def test_grace_longer_than_interval_needs_one_start() -> None:
    fold = fold_of(every="5m", grace="1h")
    start(fold, 3_000)
    assert kinds(fold, 3_000 + 3_900) == []
    assert kinds(fold, 3_000 + 3_901) == ["missed"]


@pytest.mark.parametrize(("end", "expected"), [(60, []), (60.000_001, ["overdue"])])
def test_run_may_take_exactly_its_longest_duration(end: float, expected: list[str]) -> None:
    fold = fold_of(max_duration=60)
    start(fold, 0.1)
    finish(fold, 0.1 + end, is_success=False)
    assert kinds(fold, 1_000) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(59.999_999, ["early"]), (60, [])])
def test_start_after_shortest_interval_is_not_early(seconds: float, expected: list[str]) -> None:
    fold = fold_of(min_interval=60)
    start(fold, 0)
    start(fold, seconds, job=2)
    assert kinds(fold, 100) == expected


def test_failed_run_does_not_recover() -> None:
    fold = fold_of(max_duration=60)
    start(fold, 0)
    finish(fold, 61, is_success=False)
    start(fold, 62)
    finish(fold, 63)
    start(fold, 64)
    finish(fold, 65)
    assert kinds(fold, 66) == ["overdue", "recovered"]


def test_alarm_in_log_before_its_time_is_not_repeated() -> None:
    """The clock was set back between the decision and the append."""
    fold = fold_of(every="1h")
    slot = START + 3_600 * S
    logged = missed(slot, slot + 300 * S).about(fold.expectation)
    fold.apply_alarm(Alarm("missed", START + 10 * S, logged.data))
    assert (kinds(fold, 3_901), list(fold.open)) == ([], ["missed"])
    assert fold.open["missed"].count == 1


def test_alarm_in_log_makes_start_late() -> None:
    """`missed` was appended too early, because the clock was set back. The run that starts then is late."""
    fold = fold_of(every="1h")
    slot = START + 3_600 * S
    fold.apply_alarm(Alarm("missed", START + 10 * S, missed(slot, slot + 300 * S).data))
    start(fold, 3_600)
    assert kinds(fold, 3_700) == ["late"]


def test_number_of_followed_runs_is_limited() -> None:
    fold = fold_of(max_duration=60)
    for job in range(MAX_OPEN_RUNS + 5):
        start(fold, job / 1_000, job)
    assert len(fold.runs) == MAX_OPEN_RUNS
    assert len(kinds(fold, 1_000)) == MAX_OPEN_RUNS


def test_events_before_expectation_are_ignored() -> None:
    fold = fold_of(max_duration=60)
    start(fold, -10)
    assert (kinds(fold, 1_000), fold.last_start_us) == ([], None)
