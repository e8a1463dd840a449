"""Pages: one HTML file for each server that has reports."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from glue_jobs.lake.lake import REPORTS, Lake
from glue_jobs.page import formatting
from glue_jobs.page.metrics import figures_of, key_figures
from glue_jobs.page.period import Period
from glue_jobs.page.sections import sections
from glue_jobs.page.tables import ServerTables, servers, tables_of
from glue_jobs.page.tiles import tiles

_HOLDS: Final = {
    "job_runs": "a row for each run of a job",
    "job_statistics": "runs of jobs by day, type and node, with percentiles",
    "throughput": "how many events of each type in each hour",
    "jobsets": "a row for each set of jobs",
    "timeouts": "what was given up",
    "order_runs": "a row for each run of an order",
    "order_steps": "a row for each step of an order",
    "chain_nodes": "the time per node of a chain",
    "push_runs": "a row for each push job",
    "push_nodes": "nodes of push jobs: votes, runs, percentiles",
    "waits": "how long things waited until they began",
    "slowest": "the ten longest runs of each day and kind",
    "most_failing": "the ten names of each day and kind with the most failures",
}


def write_pages(lake: Lake, names: Mapping[int, str], now: datetime) -> list[str]:
    """Write the page of each server that has reports; where they are."""
    environment = Environment(
        loader=PackageLoader("glue_jobs.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    paths = []
    for server in servers(lake):
        tables = tables_of(lake, server)
        if tables.days:
            path = f"{REPORTS}/report-{server}.html"
            name = formatting.name(names.get(server) or f"Organization {server}")
            lake.storage.write(path, _page(environment, tables, name, now).encode())
            paths.append(path)
    return paths


def _page(environment: Environment, tables: ServerTables, name: str, now: datetime) -> str:
    period = Period(max(tables.days))
    figures = figures_of(tables, period)
    has_before = period.before.covers(tables.days)
    begins = min(tables.days)
    before = key_figures(tables, period.before) if has_before else None
    return environment.get_template("report.html.j2").render(
        organization=name,
        period=formatting.days(period.first, period.last),
        made=formatting.moment(now.astimezone(UTC)),
        compared=_compared(period.before, begins) if has_before else "",
        tiles=tiles(figures.key, before, is_whole=begins <= period.before.first),
        sections=sections(figures, tables),
        tables=[(table, holds, tables.folder(table) if tables.has(table) else "") for table, holds in _HOLDS.items()],
    )


def _compared(before: Period, begins: date) -> str:
    if begins <= before.first:
        return f"Compared with {formatting.days(before.first, before.last)}."
    return (
        f"Compared with {formatting.days(begins, before.last)}, where the history begins: rates and durations, "
        "as counts of fewer days would mislead."
    )
