"""`make bench-spark`: exports into the history, the history into reports, beside DuckDB doing the same.

Each is a process of its own, measured from its start to its end; CPU seconds and memory are of all its processes.
"""

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from benchmarks import spark_exports
from benchmarks.trees import Taken, run

PYTHON = ".venv-spark/bin/python"
BUILD = Path("build") / "bench"
DAY_EVENTS = 100_000


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure the jobs of Spark beside DuckDB.")
    parser.add_argument("--events", type=int, default=5_000_000)
    events = parser.parse_args().events
    exports = BUILD / f"exports-{events}"
    if not exports.exists():
        spark_exports.write(exports, events)
    print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}; {events:,} events in commits of 20, deflated")
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        _measure(exports, events, Path(folder))


def _measure(exports: Path, events: int, folder: Path) -> None:
    lake, other = folder / "lake", folder / "duckdb"
    other.mkdir()
    # What the system remembers of files is the same for both.
    run(["cat", *map(str, exports.rglob("*.gz"))])
    ingest = _history(exports, lake)
    peer = run([PYTHON, "-m", "benchmarks.spark_duckdb", "ingest", str(exports), str(other / "events")])
    _row("exports to Parquet, Spark", ingest, f"{events / ingest.cpu_s:,.0f} events per CPU second")
    _row("exports to Parquet, DuckDB", peer, f"{events / peer.cpu_s:,.0f} events per CPU second")
    print(f"  Spark takes {ingest.wall_s / peer.wall_s:.2f} x the time of DuckDB (goal 2)")
    reports = _reports(lake)
    second = run([PYTHON, "-m", "benchmarks.spark_duckdb", "reports", str(lake), str(other)])
    _row("all reports and the page, cold, Spark", reports)
    _row("all reports, DuckDB", second)
    print(f"  Spark takes {reports.wall_s / second.wall_s:.2f} x the time of DuckDB (goal 6)")
    shutil.copytree(exports, folder / "exports")
    spark_exports.write_day(folder / "exports", events, DAY_EVENTS)
    day = [_history(folder / "exports", lake), _reports(lake)]
    _row(f"a day more, {DAY_EVENTS:,} events: history", day[0])
    _row(f"a day more, {DAY_EVENTS:,} events: reports", day[1])
    print(f"  together {sum(one.wall_s for one in day):.1f} s (goal 20)")


def _history(exports: Path, lake: Path) -> Taken:
    return run([PYTHON, "-m", "glue_jobs.history", "--exports", str(exports), "--lake", str(lake)])


def _reports(lake: Path) -> Taken:
    return run([PYTHON, "-m", "glue_jobs.reports", "--lake", str(lake)])


def _row(what: str, taken: Taken, more: str = "") -> None:
    print(f"{what:45} {taken.wall_s:6.1f} s  {taken.cpu_s:6.1f} CPU s  {taken.peak_mb:6,.0f} MB  {more}", flush=True)


if __name__ == "__main__":
    main()
