"""The Spark jobs as whole processes, compared with DuckDB: exports to history, and history to reports.

Time is measured from start to end. CPU time and memory include all child processes.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.servers import BUILD
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal
from benchmarks.spark import exports as exports_
from benchmarks.spark.process_tree import ResourceUsage, run

PYTHON = ".venv-spark/bin/python"
SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
QUICK_SIZES = (20_000, 200_000)
DAY_EVENTS = 100_000
INGEST_GOAL, REPORTS_GOAL = Goal(1.8, at_most=True, of="DuckDB"), Goal(5, at_most=True, of="DuckDB")
DAY_GOAL = Goal(20, at_most=True)
MIN_COMPARABLE_S = 5.0
"""Shorter runs have no goal, because they mostly measure the start of Java."""


def measure(folder: Path, events: int) -> Iterator[Table]:
    """Three tables: ingest the events, make the reports, and both for one more day."""
    exports = BUILD / f"exports-{events}"
    if not exports.exists():
        exports_.write(exports, events)
    lake, other = folder / "lake", folder / "duckdb"
    other.mkdir(parents=True)
    # Fill the page cache, so that both find the files in memory.
    run(["cat", *map(str, exports.rglob("*.gz"))])
    ingest = _run_history(exports, lake)
    peer = run([PYTHON, "-m", "benchmarks.spark.duckdb_peer", "ingest", str(exports), str(other / "events")])
    yield _table("exports to Parquet", ingest, peer, INGEST_GOAL)
    reports = _run_reports(lake)
    second = run([PYTHON, "-m", "benchmarks.spark.duckdb_peer", "reports", str(lake), str(other)])
    yield _table("all reports", reports, second, REPORTS_GOAL)
    shutil.copytree(exports, folder / "exports")
    exports_.write_day(folder / "exports", events, DAY_EVENTS)
    day = [_run_history(folder / "exports", lake), _run_reports(lake)]
    rows = [Row(name, "s", {"Spark": usage.wall_s}) for name, usage in zip(("history", "reports"), day, strict=True)]
    together = Row("together", "s", {"Spark": sum(usage.wall_s for usage in day)}, (DAY_GOAL,))
    yield Table("a day more", (*rows, together))


def _table(title: str, ours: ResourceUsage, theirs: ResourceUsage, goal: Goal) -> Table:
    goals = (goal,) if theirs.wall_s > MIN_COMPARABLE_S else ()
    rows = (
        Row("time", "s", {"Spark": ours.wall_s, "DuckDB": theirs.wall_s}, goals),
        Row("CPU", "s", {"Spark": ours.cpu_s, "DuckDB": theirs.cpu_s}),
        Row("most memory", "MB", {"Spark": ours.peak_mb, "DuckDB": theirs.peak_mb}),
    )
    return Table(title, rows)


def _run_history(exports: Path, lake: Path) -> ResourceUsage:
    return run([PYTHON, "-m", "glue_jobs.history", "--exports", str(exports), "--lake", str(lake)])


def _run_reports(lake: Path) -> ResourceUsage:
    return run([PYTHON, "-m", "glue_jobs.reports", "--lake", str(lake)])
