"""The metrics of one server and period."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.page.percentiles import Samples, Summary, iterate_rows
from glue_jobs.page.period import Period
from glue_jobs.page.runs import JOBS, JOBSETS, ORDERS, PUSHES, Outcome, Runs, load_runs, load_totals
from glue_jobs.page.tables import ServerTables

VOCABULARIES: Final = ("job", "jobset", "scheduler", "push", "other")
MAX_LISTED: Final = 15
"""Number of rows of a table on the page."""
MAX_SLOWEST: Final = 10
"""Number of slowest runs of each kind. The daily tables list as many, so these are exact."""

_CHAIN_COUNTS: Final = ("steps", "setbacks", "suspensions", "errors")
_NODE_COUNTS: Final = ("steps", "ended", "errors", "setbacks")
_PUSH_COUNTS: Final = ("jobs", "votes", "willing", "unwilling", "unavailable", "rehabs", "runs", "succeeded", "failed")


@dataclass(frozen=True, slots=True)
class Throughput:
    """Events by day and vocabulary, and by day and hour."""

    by_day: Counter[tuple[date, str]]
    by_hour: Counter[tuple[date, int]]

    @property
    def events(self) -> int:
        return self.by_day.total()


@dataclass(frozen=True, slots=True)
class ChainNode:
    """The steps at a node of a job chain."""

    chain: str | None
    node: str | None
    counts: Counter[str]
    taken: Summary


@dataclass(frozen=True, slots=True)
class PushNode:
    """The votes and runs of a node in push jobs."""

    node: str | None
    counts: Counter[str]
    longest: float | None

    @property
    def availability(self) -> float | None:
        """The ratio of votes that are yes or no."""
        votes = self.counts["votes"]
        return (self.counts["willing"] + self.counts["unwilling"]) / votes if votes else None


@dataclass(frozen=True, slots=True)
class KeyMetrics:
    """The metrics that are compared with the previous period."""

    events: int
    jobs: Outcome
    jobsets: Outcome
    orders: Outcome
    pushes: Outcome

    @property
    def timeouts(self) -> int:
        return self.jobs.timeouts + self.jobsets.timeouts + self.pushes.timeouts


@dataclass(frozen=True, slots=True)
class Metrics:
    """All metrics of a page."""

    period: Period
    throughput: Throughput
    jobs: Runs
    jobsets: Runs
    worst_jobsets: pa.Table
    orders: Runs
    chains: dict[str | None, Counter[str]]
    chain_nodes: Sequence[ChainNode]
    pushes: Runs
    push_nodes: Sequence[PushNode]
    timeouts: pa.Table
    slowest: dict[str, pa.Table]

    @property
    def key(self) -> KeyMetrics:
        runs = (self.jobs, self.jobsets, self.orders, self.pushes)
        return KeyMetrics(self.throughput.events, *(kind.total for kind in runs))


def load_metrics(tables: ServerTables, period: Period) -> Metrics:
    """Compute the metrics of a period from its tables."""
    days = period.days
    return Metrics(
        period,
        _throughput(tables, days),
        load_runs(tables, JOBS, days),
        load_runs(tables, JOBSETS, days),
        tables.first_rows("jobsets", days, [("bad", "descending"), ("seconds", "descending")], MAX_LISTED, _with_bad),
        load_runs(tables, ORDERS, days),
        _chains(tables, days),
        _chain_nodes(tables, days),
        load_runs(tables, PUSHES, days),
        _push_nodes(tables, days),
        tables.first_rows("timeouts", days, [("started", "descending")], MAX_LISTED, lambda rows: rows),
        {kind: _slowest(tables, days, kind) for kind in ("job", "order", "push")},
    )


def load_key_metrics(tables: ServerTables, period: Period) -> KeyMetrics:
    """Compute only the metrics that are compared."""
    events = sum(
        pc.sum(rows["events"]).as_py() or 0 for _, rows in tables.tables_by_day("throughput", period.days, ["events"])
    )
    return KeyMetrics(events, *(load_totals(tables, kind, period.days) for kind in (JOBS, JOBSETS, ORDERS, PUSHES)))


def _throughput(tables: ServerTables, days: Sequence[date]) -> Throughput:
    by_day, by_hour = Counter[tuple[date, str]](), Counter[tuple[date, int]]()
    for day, rows in tables.tables_by_day("throughput", days, ["hour", "type", "events"]):
        for (name,), events in _sum_columns(rows, ["type"], ["events"]).items():
            first = (name or "").partition("/")[0]
            by_day[day, first if first in VOCABULARIES else "other"] += events["events"]
        hours = pa.table({"hour": pc.hour(rows["hour"]).cast(pa.string()), "events": rows["events"]})
        for (hour,), events in _sum_columns(hours, ["hour"], ["events"]).items():
            by_hour[day, int(hour or 0)] += events["events"]
    return Throughput(by_day, by_hour)


def _chains(tables: ServerTables, days: Sequence[date]) -> dict[str | None, Counter[str]]:
    found: dict[str | None, Counter[str]] = {}
    for _, rows in tables.tables_by_day("order_runs", days, ["chain", *_CHAIN_COUNTS]):
        for (chain,), counts in _sum_columns(rows, ["chain"], _CHAIN_COUNTS).items():
            found.setdefault(chain, Counter()).update(counts)
    return found


def _chain_nodes(tables: ServerTables, days: Sequence[date]) -> list[ChainNode]:
    counts: dict[tuple[str | None, ...], Counter[str]] = {}
    taken = Samples()
    for _, rows in tables.tables_by_day("chain_nodes", days, ["chain", "node", *_NODE_COUNTS]):
        for key, summed in _sum_columns(rows, ["chain", "node"], _NODE_COUNTS).items():
            counts.setdefault(key, Counter()).update(summed)
    for _, rows in tables.tables_by_day("order_steps", days, ["chain", "node", "seconds"]):
        taken.add(rows, ["chain", "node"], "seconds")
    found = [ChainNode(chain, node, counts[chain, node], taken.summary_of((chain, node))) for chain, node in counts]
    return sorted(found, key=lambda one: (one.chain or "", -one.counts["steps"], one.node or ""))


def _push_nodes(tables: ServerTables, days: Sequence[date]) -> list[PushNode]:
    counts: dict[str | None, Counter[str]] = {}
    longest: dict[str | None, float] = {}
    for _, rows in tables.tables_by_day("push_nodes", days, ["node", *_PUSH_COUNTS, "longest"]):
        for (node,), summed in _sum_columns(rows, ["node"], _PUSH_COUNTS).items():
            counts.setdefault(node, Counter()).update(summed)
        for node, seconds in iterate_rows(rows.filter(pc.is_valid(rows["longest"])), ["node", "longest"]):
            longest[node] = max(seconds, longest.get(node, seconds))
    found = [PushNode(node, counted, longest.get(node)) for node, counted in counts.items()]
    return sorted(found, key=lambda one: (1 if one.availability is None else one.availability, one.node or ""))


def _slowest(tables: ServerTables, days: Sequence[date], kind: str) -> pa.Table:
    order = [("seconds", "descending"), ("key", "ascending"), ("started", "ascending")]
    return tables.first_rows(
        "slowest", days, order, MAX_SLOWEST, lambda rows: rows.filter(pc.equal(rows["kind"], kind))
    )


def _with_bad(rows: pa.Table) -> pa.Table:
    return rows.append_column("bad", pc.add(pc.fill_null(rows["failed"], 0), pc.fill_null(rows["timeouts"], 0)))


def _sum_columns(
    rows: pa.Table, keys: Sequence[str], numbers: Sequence[str]
) -> dict[tuple[str | None, ...], Counter[str]]:
    """Sum columns, grouped by other columns."""
    groups = rows.group_by(list(keys), use_threads=False).aggregate([(number, "sum") for number in numbers])
    sums = iterate_rows(groups, [f"{number}_sum" for number in numbers])
    return {
        key: Counter({number: value or 0 for number, value in zip(numbers, values, strict=True)})
        for key, values in zip(iterate_rows(groups, keys), sums, strict=True)
    }
