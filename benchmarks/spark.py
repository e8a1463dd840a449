"""Spark's jobs as whole processes: exports into the history, the history into reports, beside DuckDB doing the same.

Each is measured from its start to its end; CPU seconds and memory are of all its processes.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks import spark_exports
from benchmarks.results import Row, Table
from benchmarks.servers import BUILD
from benchmarks.table import Goal
from benchmarks.trees import Taken, run

PYTHON = ".venv-spark/bin/python"
SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
QUICK_SIZES = (20_000, 200_000)
DAY_EVENTS = 100_000
INGEST, REPORTS = Goal(1.8, at_most=True, of="DuckDB"), Goal(5, at_most=True, of="DuckDB")
DAY = Goal(20, at_most=True)
START_S = 5.0
"""What takes no longer is mostly the start of Java: there is no goal for that."""


def measured(folder: Path, events: int) -> Iterator[Table]:
    """Ingest so many events, report, and a day more."""
    exports = BUILD / f"exports-{events}"
    if not exports.exists():
        spark_exports.write(exports, events)
    lake, other = folder / "lake", folder / "duckdb"
    other.mkdir(parents=True)
    # What the system remembers of files is the same for both.
    run(["cat", *map(str, exports.rglob("*.gz"))])
    ingest = _history(exports, lake)
    peer = run([PYTHON, "-m", "benchmarks.spark_duckdb", "ingest", str(exports), str(other / "events")])
    yield _table("exports to Parquet", ingest, peer, INGEST)
    reports = _reports(lake)
    second = run([PYTHON, "-m", "benchmarks.spark_duckdb", "reports", str(lake), str(other)])
    yield _table("all reports", reports, second, REPORTS)
    shutil.copytree(exports, folder / "exports")
    spark_exports.write_day(folder / "exports", events, DAY_EVENTS)
    day = [_history(folder / "exports", lake), _reports(lake)]
    rows = [Row(name, "s", {"Spark": one.wall_s}) for name, one in zip(("history", "reports"), day, strict=True)]
    together = Row("together", "s", {"Spark": sum(one.wall_s for one in day)}, (DAY,))
    yield Table("a day more", (*rows, together))


def _table(title: str, ours: Taken, theirs: Taken, goal: Goal) -> Table:
    goals = (goal,) if theirs.wall_s > START_S else ()
    rows = (
        Row("time", "s", {"Spark": ours.wall_s, "DuckDB": theirs.wall_s}, goals),
        Row("CPU", "s", {"Spark": ours.cpu_s, "DuckDB": theirs.cpu_s}),
        Row("most memory", "MB", {"Spark": ours.peak_mb, "DuckDB": theirs.peak_mb}),
    )
    return Table(title, rows)


def _history(exports: Path, lake: Path) -> Taken:
    return run([PYTHON, "-m", "glue_jobs.history", "--exports", str(exports), "--lake", str(lake)])


def _reports(lake: Path) -> Taken:
    return run([PYTHON, "-m", "glue_jobs.reports", "--lake", str(lake)])
