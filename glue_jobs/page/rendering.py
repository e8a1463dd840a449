"""Renders the report pages, one HTML file per server."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from glue_jobs.lake.lake import REPORTS, Lake
from glue_jobs.page import formatting
from glue_jobs.page.metrics import load_key_metrics, load_metrics
from glue_jobs.page.period import Period
from glue_jobs.page.sections import sections
from glue_jobs.page.tables import ServerTables, find_tables, servers_with_reports
from glue_jobs.page.tiles import tiles

_TABLE_CONTENTS: Final = {
    "job_runs": "one row per run of a job",
    "job_statistics": "runs of jobs by day, type and node, with percentiles",
    "throughput": "number of events by type and hour",
    "jobsets": "one row per job set",
    "timeouts": "runs that timed out",
    "order_runs": "one row per run of an order",
    "order_steps": "one row per step of an order",
    "chain_nodes": "times per node of a job chain",
    "push_runs": "one row per push job",
    "push_nodes": "nodes of push jobs: votes, runs, percentiles",
    "waits": "time from creation to start",
    "slowest": "the ten longest runs of each day and kind",
    "most_failing": "the ten names of each day and kind with the most failures",
}


def write_pages(lake: Lake, names: Mapping[int, str], now: datetime) -> list[str]:
    """Write the page of each server that has reports. Returns their paths."""
    environment = Environment(
        loader=PackageLoader("glue_jobs.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    paths = []
    for server in servers_with_reports(lake):
        tables = find_tables(lake, server)
        if tables.days:
            path = f"{REPORTS}/report-{server}.html"
            name = formatting.name(names.get(server) or f"Organization {server}")
            lake.storage.write(path, _render(environment, tables, name, now).encode())
            paths.append(path)
    return paths


def _render(environment: Environment, tables: ServerTables, name: str, now: datetime) -> str:
    period = Period(max(tables.days))
    metrics = load_metrics(tables, period)
    has_before = period.before.covers(tables.days)
    history_start = min(tables.days)
    before = load_key_metrics(tables, period.before) if has_before else None
    return environment.get_template("report.html.j2").render(
        organization=name,
        period=formatting.days(period.first, period.last),
        made=formatting.timestamp(now.astimezone(UTC)),
        compared=_comparison_note(period.before, history_start) if has_before else "",
        tiles=tiles(metrics.key, before, is_whole=history_start <= period.before.first),
        sections=sections(metrics, tables),
        tables=[
            (table, holds, tables.folder(table) if tables.has_rows(table) else "")
            for table, holds in _TABLE_CONTENTS.items()
        ],
    )


def _comparison_note(before: Period, history_start: date) -> str:
    if history_start <= before.first:
        return f"Compared with {formatting.days(before.first, before.last)}."
    return (
        f"Compared with {formatting.days(history_start, before.last)}, "
        "the part of the previous period that the history covers. Only rates and durations are compared."
    )
