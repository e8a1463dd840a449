"""Lakes with a few rows. Missing values are null."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from glue_jobs.lake.lake import Lake
from glue_jobs.page.metrics import Metrics, load_metrics
from glue_jobs.page.period import Period
from glue_jobs.page.rendering import write_pages
from glue_jobs.page.tables import find_tables
from glue_jobs.schemas import TABLES

NOW = datetime(2026, 11, 1, 7, 30, tzinfo=UTC)

Rows = Sequence[Mapping[str, Any]]
Days = Mapping[str, Mapping[str, Rows]]
"""Rows by day and table."""


def at(day: str, hour: int = 0, minute: int = 0) -> datetime:
    return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC).replace(hour=hour, minute=minute)


def write_lake(folder: Path, days: Days, server: int = 1) -> Lake:
    """Write tables like the `reports` job."""
    for day, tables in days.items():
        for table, rows in tables.items():
            directory = folder / "reports" / table / f"server={server}" / f"day={day}"
            directory.mkdir(parents=True, exist_ok=True)
            table_ = pa.Table.from_pylist([dict(row) for row in rows], schema=TABLES[table])
            pa.parquet.write_table(table_, directory / "0.parquet", compression="zstd")
    return Lake(str(folder))


def metrics(lake: Lake, last: str, server: int = 1) -> Metrics:
    """The metrics of the period that ends on a day."""
    return load_metrics(find_tables(lake, server), Period(date.fromisoformat(last)))


def page(lake: Lake, names: Mapping[int, str] | None = None, server: int = 1) -> str:
    write_pages(lake, names or {}, NOW, {server})
    return (Path(lake.url) / "reports" / f"report-{server}.html").read_text()


def events(day: str, **of: int) -> dict[str, Rows]:
    """The throughput rows of a day, with all events at noon."""
    return {"throughput": [{"hour": at(day, 12), "type": f"{name}/x", "events": number} for name, number in of.items()]}


def job(seconds: float | None = None, result: str | None = None, **more: Any) -> dict[str, Any]:
    return {"job": 1, "type": "build", "node": "n1", "seconds": seconds, "result": result, **more}


def one_row_per_table(day: str, name: str = "name") -> dict[str, Rows]:
    """One row in each table, with the same name in all name columns."""
    times: dict[str, Any] = {"started": at(day, 10), "ended": at(day, 11), "seconds": 3600.0}
    counts = {"steps": 4, "setbacks": 2, "suspensions": 1, "errors": 1}
    votes = {"jobs": 4, "votes": 4, "willing": 2, "unwilling": 1, "unavailable": 1, "rehabs": 1, "runs": 2}
    chain = {"chain": name, "node": name}
    return {
        "throughput": [{"hour": at(day, 10), "type": f"{name}/{name}", "events": 7}],
        "job_runs": [
            {"job": 1, "type": name, "node": name, "jobset": 9, **times, "waited": 5.0, "result": "failure"},
            {"job": 2, "type": name, "node": name, **times, "result": "timeout"},
        ],
        "jobsets": [{"jobset": 9, "node": name, **times, "result": "complete", "planned": 1, "jobs": 1, "failed": 1}],
        "timeouts": [{"kind": "job", "name": name, "key": name, "node": name, **times}],
        "order_runs": [{"chain": name, "order": name, "run": 1, **times, "waited": 6.0, **counts, "result": "failure"}],
        "order_steps": [{**chain, "order": name, "run": 1, "step": 1, **times, "result": "error"}],
        "chain_nodes": [{**chain, "steps": 4, "ended": 3, "errors": 1, "setbacks": 2}],
        "push_runs": [{"job": name, "command": name, **times, "waited": 7.0, "result": "quorum_failed"}],
        "push_nodes": [{"node": name, **votes, "succeeded": 1, "failed": 1, "longest": 9.0}],
        "slowest": [
            {
                "kind": kind,
                "rank": 1,
                "name": name,
                "key": name,
                "node": name,
                "started": at(day, 10),
                "seconds": 3600.0,
            }
            for kind in ("job", "order", "push")
        ],
    }
