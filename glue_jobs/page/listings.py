"""The tables of the page: the first rows of what the Parquet files have, as text."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from glue_jobs.page import formatting
from glue_jobs.page.elements import Cell, Table, count, durations, named, share
from glue_jobs.page.metrics import LISTED, SLOWEST, Figures
from glue_jobs.page.percentiles import Summary
from glue_jobs.page.runs import Outcome
from glue_jobs.page.tables import ServerTables

_KINDS = {"job": "Job", "jobset": "Job set", "order": "Order", "push": "Push job"}

T = TypeVar("T")


def jobs(figures: Figures, tables: ServerTables) -> Iterator[Table]:
    """Types, nodes, what fails, what is slow, what was given up."""
    for caption, title, rows in (
        ("Job types, by runs", "Type", figures.jobs.by_name),
        ("Nodes, by runs", "Node", figures.jobs.by_node),
    ):
        titles = [title, "Runs", "Success", "Failed", "Timeouts", "p50", "p90", "p99", "Longest"]
        yield _table(tables, "job_runs", caption, titles, rows, _job_row)
    yield _failing(figures, tables)
    yield _slowest(tables, "Slowest jobs", figures.slowest["job"], has_node=True)
    total = figures.key.timeouts
    titles = ["Name", "Kind", "Key", "Node", "Started", "Given up after"]
    latest = _rows(figures.timeouts)
    yield _table(tables, "timeouts", "Timeouts, latest first", titles, latest, _timeout_row, total)


def jobsets(figures: Figures, tables: ServerTables) -> Iterator[Table]:
    """The sets that went worst."""
    titles = ["Set", "Node", "Started", "Result", "Duration", "Planned", "Jobs", "Succeeded", "Failed", "Timeouts"]
    rows, total = _rows(figures.worst_jobsets), figures.jobsets.total.runs
    yield _table(tables, "jobsets", "Job sets, by failures, then by duration", titles, rows, _jobset_row, total)


def orders(figures: Figures, tables: ServerTables) -> Iterator[Table]:
    """Chains, their nodes, and the slowest orders."""

    def chain_row(one: Outcome) -> list[Cell]:
        counts = figures.chains[one.name]
        sums = [count(counts["steps"]), *(count(counts[name], True) for name in ("errors", "setbacks", "suspensions"))]
        return [named(one.name), count(one.runs), share(one.success_rate), *sums, *_durations(one.taken)]

    titles = ["Chain", "Runs", "Success", "Steps", "Errors", "Setbacks", "Suspended", "p50", "p90", "p99", "Longest"]
    yield _table(tables, "order_runs", "Job chains, by runs", titles, figures.orders.by_name, chain_row)
    titles = ["Chain", "Node", "Steps", "Ended", "Errors", "Setbacks", "p50", "p90", "p99", "Longest"]
    caption = "Nodes of chains, time per step"
    yield _table(
        tables, "order_steps", caption, titles, figures.chain_nodes,
        lambda one: [
            named(one.chain), named(one.node), count(one.counts["steps"]), count(one.counts["ended"]),
            count(one.counts["errors"], True), count(one.counts["setbacks"], True), *_durations(one.taken),
        ],
    )  # fmt: skip
    yield _slowest(tables, "Slowest orders", figures.slowest["order"])


def pushes(figures: Figures, tables: ServerTables) -> Iterator[Table]:
    """Commands, nodes, and the slowest push jobs."""
    titles = ["Command", "Jobs", "Complete", "No quorum", "Timed out", "Other", "p50", "p90", "p99", "Longest"]
    yield _table(tables, "push_runs", "Push commands, by jobs", titles, figures.pushes.by_name, _push_row)
    titles = ["Node", "Jobs", "Available", "Willing", "Unwilling", "Unavailable", "Rehabs", "Runs", "Failed", "Longest"]
    caption = "Nodes of push jobs, least available first"
    yield _table(
        tables, "push_nodes", caption, titles, figures.push_nodes,
        lambda one: [
            named(one.node), count(one.counts["jobs"]), share(one.availability), count(one.counts["willing"]),
            *(count(one.counts[name], True) for name in ("unwilling", "unavailable", "rehabs")),
            count(one.counts["runs"]), count(one.counts["failed"], True), *durations(one.longest),
        ],
    )  # fmt: skip
    yield _slowest(tables, "Slowest push jobs", figures.slowest["push"])


def waits(figures: Figures, tables: ServerTables) -> Iterator[Table]:
    """How long things waited until they began."""
    kinds = (("job", figures.jobs), ("order", figures.orders), ("push", figures.pushes))
    found = [(kind, one) for kind, runs in kinds for one in runs.by_name if one.waited.count]
    found.sort(key=lambda pair: -(pair[1].waited.p99 or 0))
    titles = ["Name", "Kind", "Waits", "p50", "p90", "p99", "Longest"]

    def row(pair: tuple[str, Outcome]) -> list[Cell]:
        kind, one = pair
        return [named(one.name), Cell(_KINDS[kind]), count(one.waited.count), *_durations(one.waited)]

    yield _table(tables, "waits", "Waits, longest 99th percentile first", titles, found, row)


def _table(
    tables: ServerTables,
    source: str,
    caption: str,
    titles: Sequence[str],
    rows: Sequence[T],
    row: Callable[[T], list[Cell]],
    total: int | None = None,
    is_half: bool = False,
) -> Table:
    shown = [row(one) for one in rows[: SLOWEST if is_half else LISTED]]
    more = (len(rows) if total is None else total) - len(shown)
    return Table(caption, titles, shown, source, tables.folder(source), max(more, 0), is_half)


def _failing(figures: Figures, tables: ServerTables) -> Table:
    kinds = (("job", figures.jobs), ("order", figures.orders), ("push", figures.pushes))
    found = [(kind, one) for kind, runs in kinds for one in runs.by_name if one.failures]
    found.sort(key=lambda pair: (-pair[1].failures, -pair[1].failures / pair[1].ended, pair[1].name or ""))

    def row(pair: tuple[str, Outcome]) -> list[Cell]:
        kind, one = pair
        rate = share(one.failures / one.ended)
        return [named(one.name), Cell(_KINDS[kind]), count(one.ended), count(one.failures, True), rate]

    titles = ["Name", "Kind", "Ended", "Failures", "Failure rate"]
    return _table(tables, "most_failing", "Most failing, timeouts included", titles, found, row, is_half=True)


def _slowest(tables: ServerTables, caption: str, rows: pa.Table, has_node: bool = False) -> Table:
    def row(one: dict[str, Any]) -> list[Cell]:
        nodes = [named(one["node"])] if has_node else []
        when = Cell(formatting.moment(one["started"]))
        return [named(one["name"]), named(one["key"]), *nodes, when, *durations(one["seconds"])]

    titles = ["Name", "Key", *(["Node"] if has_node else []), "Started", "Duration"]
    return _table(tables, "slowest", caption, titles, _rows(rows), row, is_half=has_node)


def _job_row(one: Outcome) -> list[Cell]:
    counts = [count(one.runs), share(one.success_rate), count(one.failed, True), count(one.timeouts, True)]
    return [named(one.name), *counts, *_durations(one.taken)]


def _push_row(one: Outcome) -> list[Cell]:
    quorum = one.results["quorum_failed"]
    bad = [count(number, True) for number in (quorum, one.timeouts, one.failed - quorum)]
    return [named(one.name), count(one.runs), share(one.success_rate), *bad, *_durations(one.taken)]


def _timeout_row(one: dict[str, Any]) -> list[Cell]:
    kind = Cell(_KINDS.get(one["kind"], formatting.name(one["kind"])))
    names = [named(one["name"]), kind, named(one["key"]), named(one["node"])]
    return [*names, Cell(formatting.moment(one["started"])), *durations(one["seconds"])]


def _jobset_row(one: dict[str, Any]) -> list[Cell]:
    names = [named(one["jobset"]), named(one["node"]), Cell(formatting.moment(one["started"])), named(one["result"])]
    counts = [count(one["planned"]), count(one["jobs"]), count(one["succeeded"])]
    return [*names, *durations(one["seconds"]), *counts, count(one["failed"], True), count(one["timeouts"], True)]


def _durations(taken: Summary) -> list[Cell]:
    return list(durations(taken.p50, taken.p90, taken.p99, taken.longest))


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found
