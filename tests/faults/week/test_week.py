"""A week of 2,000 runs of 50 job types, while the workers are killed at every step.

The alarms are those that a second computation finds in the finished log. The messages are those that a second
implementation of the rules of observers derives from it. `python -m tests.faults.week` runs more weeks.
"""

from collections.abc import Iterator

import pytest

from tests.faults.week.kills import DIVISIBLE, WRITES
from tests.faults.week.report import WeekReport, folder_in_memory, run_week

SMALL_WEEKS = (1, 2)
"""With seed 0: the clocks of Berlin change in autumn and spring, those of New York in autumn."""


@pytest.fixture(name="report", scope="module")
def fixture_report() -> Iterator[WeekReport]:
    with folder_in_memory() as folder:
        yield run_week(folder, seed=0)


def test_week_has_runs_alarms_and_messages(report: WeekReport) -> None:
    assert (report.planned_runs, report.job_types) == (2_000, 50)
    assert min(report.alarms[kind] for kind in ("missed", "late", "overdue", "early", "recovered")) > 20
    assert (report.alarms.total() > 1_000, report.messages.total() > 3_000, len(report.messages)) == (True, True, 17)


def test_workers_are_killed_at_every_kind_of_write(report: WeekReport) -> None:
    methods = {f"{store}.{method}" for store, names in WRITES.items() for method in names} - {"views.drop"}
    killed = {(kind.partition(" ")[0], moment) for kind, moment in report.kills.kills}
    expected = {(method, moment) for method in methods for moment in ("before", "after")}
    expected |= {(method, "within") for method in DIVISIBLE}
    assert expected - killed == set()
    appended = {"append missed", "append late", "append overdue", "append early", "append recovered", "append message"}
    kinds = {kind.removeprefix("log.") for kind, _ in report.kills.kills}
    assert appended - kinds == set()
    assert report.kills.kills.total() > 1_000


def test_alarms_and_messages_are_those_of_the_log(report: WeekReport) -> None:
    assert list(report.lines)[1:] == []
    assert report.is_exact


@pytest.mark.parametrize("seed", SMALL_WEEKS)
def test_other_weeks_are_exact(seed: int) -> None:
    with folder_in_memory() as folder:
        report = run_week(folder, seed, types=10, runs_of_type=10)
    assert list(report.lines)[1:] == []
    assert report.is_exact
