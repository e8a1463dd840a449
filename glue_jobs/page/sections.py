"""The sections of a page: what is said of events, jobs, sets, orders, push jobs and waits."""

from collections.abc import Iterator

from glue_jobs.page import formatting, listings
from glue_jobs.page.charts import chart_sections
from glue_jobs.page.elements import Section, Table
from glue_jobs.page.metrics import Figures
from glue_jobs.page.runs import Outcome
from glue_jobs.page.tables import ServerTables


def sections(figures: Figures, tables: ServerTables) -> list[Section]:
    """All of them, in order; those without data say how to get some."""
    return [
        _events(figures),
        _jobs(figures, tables),
        _jobsets(figures, tables),
        _orders(figures, tables),
        _pushes(figures, tables),
        _waits(figures, tables),
    ]


def _events(figures: Figures) -> Section:
    if not figures.throughput.events:
        return Section("events", "Events", "No events in this period.")
    by_day = figures.throughput.by_day
    active = len({day for day, _ in by_day})
    gist = (
        f"{formatting.number(by_day.total())} events on {active} of {len(figures.period.days)} days, "
        f"{formatting.number(by_day.total() / active)} on a day with events."
    )
    return Section("events", "Events", gist, [chart_sections.throughput(figures), chart_sections.calendar(figures)])


def _jobs(figures: Figures, tables: ServerTables) -> Section:
    jobs = figures.jobs
    if not jobs.total.runs:
        return Section("jobs", "Jobs", _nothing("jobs", "job"))
    gist = (
        f"{_runs(jobs.total)} of {_some(len(jobs.by_name), 'type')} on {_some(len(jobs.by_node), 'node')}; "
        f"{_success(jobs.total)}."
    )
    return Section("jobs", "Jobs", gist, list(chart_sections.jobs(figures)), _filled(listings.jobs(figures, tables)))


def _jobsets(figures: Figures, tables: ServerTables) -> Section:
    total = figures.jobsets.total
    if not total.runs:
        return Section("jobsets", "Job sets", _nothing("job sets", "jobset"))
    gist = (
        f"{_some(total.runs, 'set')}; {formatting.number(total.succeeded)} complete, "
        f"{formatting.number(total.timeouts)} given up, {formatting.number(total.results[None])} not ended."
    )
    charts = list(chart_sections.jobsets(figures))
    return Section("jobsets", "Job sets", gist, charts, _filled(listings.jobsets(figures, tables)))


def _orders(figures: Figures, tables: ServerTables) -> Section:
    orders = figures.orders
    if not orders.total.runs and not figures.chain_nodes:
        return Section("orders", "Orders", _nothing("orders", "scheduler"))
    gist = f"{_runs(orders.total)} in {_some(len(orders.by_name), 'job chain')}; {_success(orders.total)}."
    return Section(
        "orders", "Orders", gist, list(chart_sections.orders(figures)), _filled(listings.orders(figures, tables))
    )


def _pushes(figures: Figures, tables: ServerTables) -> Section:
    pushes = figures.pushes
    if not pushes.total.runs and not figures.push_nodes:
        return Section("pushes", "Push jobs", _nothing("push jobs", "push"))
    gist = (
        f"{_some(pushes.total.runs, 'push job')} of {_some(len(pushes.by_name), 'command')} on "
        f"{_some(len(figures.push_nodes), 'node')}; {_success(pushes.total)}."
    )
    charts = list(chart_sections.pushes(figures))
    return Section("pushes", "Push jobs", gist, charts, _filled(listings.pushes(figures, tables)))


def _waits(figures: Figures, tables: ServerTables) -> Section:
    found = _filled(listings.waits(figures, tables))
    if not found:
        return Section("waits", "Waits", "No waits in this period: nothing began that was seen to be created.")
    gist = (
        "From the creation of a job to its first progress, from an order's being added to its start, "
        "and from the start of a push job to its quorum."
    )
    return Section("waits", "Waits", gist, (), found)


def _nothing(what: str, vocabulary: str) -> str:
    return f"No {what} in this period. They are made of events whose type begins with “{vocabulary}”."


def _runs(total: Outcome) -> str:
    return _some(total.runs, "run")


def _some(number: int, what: str) -> str:
    return f"{formatting.number(number)} {what}" + ("" if number == 1 else "s")


def _success(total: Outcome) -> str:
    if total.success_rate is None:
        return "none of them has ended"
    return f"{formatting.share(total.success_rate)} of those that ended succeeded"


def _filled(tables: Iterator[Table]) -> list[Table]:
    return [table for table in tables if table.rows]
