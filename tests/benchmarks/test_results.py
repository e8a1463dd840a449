from pathlib import Path

import pytest

from benchmarks.report.results import Measurement, Results, Row, Table
from benchmarks.report.table import Goal

ROW = Row(
    "16 clients",
    "events/s",
    {"Annals": 4_000.0, "UmaDB": 8_000.0},
    (Goal(0.6, of="UmaDB"), Goal(1, of="hat-event")),
    {"Annals": (3_900.0, 4_100.0), "UmaDB": (7_000.0, 9_000.0)},
)
TIMES = Row("poll", "ms", {"p50": 2.0, "p99": 30.0}, (Goal(5, at_most=True), Goal(25, at_most=True, column="p99")))


def measured(part: str = "appends", size: int = 10_000, row: Row = ROW) -> Measurement:
    return Measurement(part, size, {"at": "2026-11-16 10:00", "load": 0.2}, (Table("over the wire", (row,)),))


def test_verdicts_relative_goal_is_ratio() -> None:
    assert [(verdict.value, verdict.is_reached) for verdict in ROW.verdicts] == [(0.5, False)]


def test_verdicts_goal_may_name_column() -> None:
    assert [(verdict.value, verdict.is_reached) for verdict in TIMES.verdicts] == [(2.0, True), (30.0, False)]


def test_table_str_shows_verdicts() -> None:
    assert str(Table("over the wire", (ROW,))).splitlines() == [
        "over the wire        | Annals | UmaDB |                       goals",
        "---------------------+--------+-------+----------------------------",
        "16 clients, events/s |  4,000 | 8,000 | 0.50 (>= 0.6 x UmaDB) short",
    ]


def test_results_saved_are_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "build" / "results.json"
    results = Results([measured(), measured(row=TIMES, part="alone")])
    results.save(path)
    assert list(Results.load(path)) == list(results)


def test_results_add_replaces_same_part_and_size() -> None:
    results = Results([measured(size=100_000), measured(size=10_000), measured("reading")])
    newer = measured(size=10_000, row=TIMES)
    results.add(newer)
    assert results.for_part("appends") == [newer, measured(size=100_000)]
    assert results.for_part("reading") == [measured("reading")]


@pytest.mark.parametrize("missing", ["", "no such folder"])
def test_results_missing_file_is_empty(tmp_path: Path, missing: str) -> None:
    assert list(Results.load(tmp_path / missing / "results.json")) == []
