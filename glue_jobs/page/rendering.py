"""Renders the report pages, one HTML file per server."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
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


NEW_PAGES: Final = "_new_pages"
"""Directory with a file for each run, which lists the pages with news."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a server, and the first and last day of its tables."""

    server: int
    first: date
    last: date

    @property
    def path(self) -> str:
        return f"{REPORTS}/report-{self.server}.html"


def write_pages(lake: Lake, names: Mapping[int, str], now: datetime, changed: Collection[int]) -> list[Page]:
    """Write the pages of the servers whose tables changed, and missing ones. Returns the written pages."""
    environment = Environment(
        loader=PackageLoader("glue_jobs.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    pages = []
    existing = set(lake.storage.files(REPORTS, recursive=False))
    for server in servers_with_reports(lake):
        if server in changed or f"{REPORTS}/report-{server}.html" not in existing:
            tables = find_tables(lake, server)
            if tables.days:
                page = Page(server, min(tables.days), max(tables.days))
                name = formatting.name(names.get(server) or f"Organization {server}")
                lake.storage.write(page.path, _render(environment, tables, name, now).encode())
                pages.append(page)
    return pages


def record_new_pages(lake: Lake, run: str, pages: Iterable[Page]) -> None:
    """Record the pages with news under the id of the run, for the event that announces them."""
    periods = {page.server: {"from": page.first.isoformat(), "to": page.last.isoformat()} for page in pages}
    content = {"pages": [{"server": server, "period": period} for server, period in periods.items()]}
    lake.storage.write(f"{NEW_PAGES}/{run}.json", json.dumps(content).encode())


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
