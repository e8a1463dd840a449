"""The sections of a page: events, jobs, job sets, orders, push jobs and waits."""

from collections.abc import Iterator

from glue_jobs.page import formatting, listings
from glue_jobs.page.charts import chart_sections
from glue_jobs.page.elements import Section, Table
from glue_jobs.page.metrics import Metrics
from glue_jobs.page.runs import Outcome
from glue_jobs.page.tables import ServerTables


def sections(metrics: Metrics, tables: ServerTables) -> list[Section]:
    """All sections, in order. A section without data says which events it needs."""
    return [
        _events(metrics),
        _jobs(metrics, tables),
        _jobsets(metrics, tables),
        _orders(metrics, tables),
        _pushes(metrics, tables),
        _waits(metrics, tables),
    ]


def _events(metrics: Metrics) -> Section:
    if not metrics.throughput.events:
        return Section("events", "Events", "No events in this period.")
    by_day = metrics.throughput.by_day
    active = len({day for day, _ in by_day})
    gist = (
        f"{formatting.number(by_day.total())} events on {active} of {len(metrics.period.days)} days, "
        f"{formatting.number(by_day.total() / active)} on a day with events."
    )
    return Section("events", "Events", gist, [chart_sections.throughput(metrics), chart_sections.calendar(metrics)])


def _jobs(metrics: Metrics, tables: ServerTables) -> Section:
    jobs = metrics.jobs
    if not jobs.total.runs:
        return Section("jobs", "Jobs", _no_data("jobs", "job"))
    gist = (
        f"{_runs(jobs.total)} of {_count(len(jobs.by_name), 'type')} on {_count(len(jobs.by_node), 'node')}; "
        f"{_success(jobs.total)}."
    )
    return Section("jobs", "Jobs", gist, list(chart_sections.jobs(metrics)), _non_empty(listings.jobs(metrics, tables)))


def _jobsets(metrics: Metrics, tables: ServerTables) -> Section:
    total = metrics.jobsets.total
    if not total.runs:
        return Section("jobsets", "Job sets", _no_data("job sets", "jobset"))
    gist = (
        f"{_count(total.runs, 'set')}; {formatting.number(total.succeeded)} complete, "
        f"{formatting.number(total.timeouts)} given up, {formatting.number(total.results[None])} not ended."
    )
    charts = list(chart_sections.jobsets(metrics))
    return Section("jobsets", "Job sets", gist, charts, _non_empty(listings.jobsets(metrics, tables)))


def _orders(metrics: Metrics, tables: ServerTables) -> Section:
    orders = metrics.orders
    if not orders.total.runs and not metrics.chain_nodes:
        return Section("orders", "Orders", _no_data("orders", "scheduler"))
    gist = f"{_runs(orders.total)} in {_count(len(orders.by_name), 'job chain')}; {_success(orders.total)}."
    return Section(
        "orders", "Orders", gist, list(chart_sections.orders(metrics)), _non_empty(listings.orders(metrics, tables))
    )


def _pushes(metrics: Metrics, tables: ServerTables) -> Section:
    pushes = metrics.pushes
    if not pushes.total.runs and not metrics.push_nodes:
        return Section("pushes", "Push jobs", _no_data("push jobs", "push"))
    gist = (
        f"{_count(pushes.total.runs, 'push job')} of {_count(len(pushes.by_name), 'command')} on "
        f"{_count(len(metrics.push_nodes), 'node')}; {_success(pushes.total)}."
    )
    charts = list(chart_sections.pushes(metrics))
    return Section("pushes", "Push jobs", gist, charts, _non_empty(listings.pushes(metrics, tables)))


def _waits(metrics: Metrics, tables: ServerTables) -> Section:
    tables_with_rows = _non_empty(listings.waits(metrics, tables))
    if not tables_with_rows:
        return Section("waits", "Waits", "No waits in this period: nothing started that was created in the history.")
    gist = (
        "From the creation of a job to its first progress, from an order's being added to its start, "
        "and from the start of a push job to its quorum."
    )
    return Section("waits", "Waits", gist, (), tables_with_rows)


def _no_data(name: str, vocabulary: str) -> str:
    return f"No {name} in this period. They are derived from events whose type starts with “{vocabulary}”."


def _runs(total: Outcome) -> str:
    return _count(total.runs, "run")


def _count(number: int, noun: str) -> str:
    return f"{formatting.number(number)} {noun}" + ("" if number == 1 else "s")


def _success(total: Outcome) -> str:
    if total.success_rate is None:
        return "none has ended"
    return f"{formatting.share(total.success_rate)} of the ended ones succeeded"


def _non_empty(tables: Iterator[Table]) -> list[Table]:
    return [table for table in tables if table.rows]
