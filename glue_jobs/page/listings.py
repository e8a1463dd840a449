"""The tables on the page: the first rows of report tables, as text."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from glue_jobs.page import formatting
from glue_jobs.page.elements import Cell, Table, count, durations, named, share
from glue_jobs.page.metrics import MAX_LISTED, MAX_SLOWEST, Metrics
from glue_jobs.page.percentiles import Summary
from glue_jobs.page.runs import Outcome
from glue_jobs.page.tables import ServerTables

_KINDS = {"job": "Job", "jobset": "Job set", "order": "Order", "push": "Push job"}

T = TypeVar("T")


def jobs(metrics: Metrics, tables: ServerTables) -> Iterator[Table]:
    """Job types, nodes, failures, slowest jobs and timeouts."""
    for caption, title, rows in (
        ("Job types, by runs", "Type", metrics.jobs.by_name),
        ("Nodes, by runs", "Node", metrics.jobs.by_node),
    ):
        titles = [title, "Runs", "Success", "Failed", "Timeouts", "p50", "p90", "p99", "Longest"]
        yield _table(tables, "job_runs", caption, titles, rows, _job_row)
    yield _failing(metrics, tables)
    yield _slowest(tables, "Slowest jobs", metrics.slowest["job"], has_node=True)
    total = metrics.key.timeouts
    titles = ["Name", "Kind", "Key", "Node", "Started", "Given up after"]
    latest = _rows(metrics.timeouts)
    yield _table(tables, "timeouts", "Timeouts, latest first", titles, latest, _timeout_row, total)


def jobsets(metrics: Metrics, tables: ServerTables) -> Iterator[Table]:
    """The job sets with the most failures."""
    titles = ["Set", "Node", "Started", "Result", "Duration", "Planned", "Jobs", "Succeeded", "Failed", "Timeouts"]
    rows, total = _rows(metrics.worst_jobsets), metrics.jobsets.total.runs
    yield _table(tables, "jobsets", "Job sets, by failures, then by duration", titles, rows, _jobset_row, total)


def orders(metrics: Metrics, tables: ServerTables) -> Iterator[Table]:
    """Job chains, their nodes, and the slowest orders."""

    def chain_row(one: Outcome) -> list[Cell]:
        counts = metrics.chains[one.name]
        sums = [count(counts["steps"]), *(count(counts[name], True) for name in ("errors", "setbacks", "suspensions"))]
        return [named(one.name), count(one.runs), share(one.success_rate), *sums, *_durations(one.taken)]

    titles = ["Chain", "Runs", "Success", "Steps", "Errors", "Setbacks", "Suspended", "p50", "p90", "p99", "Longest"]
    yield _table(tables, "order_runs", "Job chains, by runs", titles, metrics.orders.by_name, chain_row)
    titles = ["Chain", "Node", "Steps", "Ended", "Errors", "Setbacks", "p50", "p90", "p99", "Longest"]
    caption = "Nodes of chains, time per step"
    yield _table(
        tables, "order_steps", caption, titles, metrics.chain_nodes,
        lambda one: [
            named(one.chain), named(one.node), count(one.counts["steps"]), count(one.counts["ended"]),
            count(one.counts["errors"], True), count(one.counts["setbacks"], True), *_durations(one.taken),
        ],
    )  # fmt: skip
    yield _slowest(tables, "Slowest orders", metrics.slowest["order"])


def pushes(metrics: Metrics, tables: ServerTables) -> Iterator[Table]:
    """Commands, nodes, and the slowest push jobs."""
    titles = ["Command", "Jobs", "Complete", "No quorum", "Timed out", "Other", "p50", "p90", "p99", "Longest"]
    yield _table(tables, "push_runs", "Push commands, by jobs", titles, metrics.pushes.by_name, _push_row)
    titles = ["Node", "Jobs", "Available", "Willing", "Unwilling", "Unavailable", "Rehabs", "Runs", "Failed", "Longest"]
    caption = "Nodes of push jobs, least available first"
    yield _table(
        tables, "push_nodes", caption, titles, metrics.push_nodes,
        lambda one: [
            named(one.node), count(one.counts["jobs"]), share(one.availability), count(one.counts["willing"]),
            *(count(one.counts[name], True) for name in ("unwilling", "unavailable", "rehabs")),
            count(one.counts["runs"]), count(one.counts["failed"], True), *durations(one.longest),
        ],
    )  # fmt: skip
    yield _slowest(tables, "Slowest push jobs", metrics.slowest["push"])


def waits(metrics: Metrics, tables: ServerTables) -> Iterator[Table]:
    """Times from creation to start."""
    kinds = (("job", metrics.jobs), ("order", metrics.orders), ("push", metrics.pushes))
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
    shown = [row(one) for one in rows[: MAX_SLOWEST if is_half else MAX_LISTED]]
    more = (len(rows) if total is None else total) - len(shown)
    return Table(caption, titles, shown, source, tables.folder(source), max(more, 0), is_half)


def _failing(metrics: Metrics, tables: ServerTables) -> Table:
    kinds = (("job", metrics.jobs), ("order", metrics.orders), ("push", metrics.pushes))
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
        when = Cell(formatting.timestamp(one["started"]))
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
    return [*names, Cell(formatting.timestamp(one["started"])), *durations(one["seconds"])]


def _jobset_row(one: dict[str, Any]) -> list[Cell]:
    names = [named(one["jobset"]), named(one["node"]), Cell(formatting.timestamp(one["started"])), named(one["result"])]
    counts = [count(one["planned"]), count(one["jobs"]), count(one["succeeded"])]
    return [*names, *durations(one["seconds"]), *counts, count(one["failed"], True), count(one["timeouts"], True)]


def _durations(taken: Summary) -> list[Cell]:
    return list(durations(taken.p50, taken.p90, taken.p99, taken.longest))


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found
