"""Runs of one kind (jobs, orders, push jobs, job sets) in a period: results, durations and waits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.page.percentiles import Numbers, Samples, Summary, iterate_rows, summarize
from glue_jobs.page.tables import ServerTables

Results = Counter[str | None]
"""Number of runs by result. None means not ended."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of runs: its table and the meanings of its results."""

    table: str
    success: str
    timeout: str
    name: str | None = None
    node: str | None = None
    timed: tuple[str, ...] = ()
    """The results whose durations count. Empty means all."""


JOBS: Final = Kind("job_runs", "success", "timeout", "type", "node", timed=("success", "failure"))
ORDERS: Final = Kind("order_runs", "success", "", "chain")
PUSHES: Final = Kind("push_runs", "complete", "timed_out", "command")
JOBSETS: Final = Kind("jobsets", "complete", "timeout")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of the runs of one name or node."""

    name: str | None
    kind: Kind
    results: Results
    taken: Summary
    waited: Summary

    @property
    def runs(self) -> int:
        return self.results.total()

    @property
    def ended(self) -> int:
        return self.runs - self.results[None]

    @property
    def succeeded(self) -> int:
        return self.results[self.kind.success]

    @property
    def timeouts(self) -> int:
        return self.results[self.kind.timeout]

    @property
    def failed(self) -> int:
        """Number of runs that ended with another result."""
        return self.ended - self.succeeded - self.timeouts

    @property
    def failures(self) -> int:
        """Number of runs that failed or timed out."""
        return self.ended - self.succeeded

    @property
    def success_rate(self) -> float | None:
        """Successes divided by ended runs. None if no run has ended."""
        return self.succeeded / self.ended if self.ended else None


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one kind in a period."""

    total: Outcome
    by_name: Sequence[Outcome]
    by_node: Sequence[Outcome]
    by_day: dict[date, Results]
    by_hour: Counter[tuple[str | None, int]]
    """Number of runs started by node and hour of the day."""
    seconds: Numbers


def load_totals(tables: ServerTables, kind: Kind, days: Sequence[date]) -> Outcome:
    """The results of all runs, read from two columns only."""
    results, taken = Results(), Samples()
    for _, rows in tables.tables_by_day(kind.table, days, ["result", "seconds"]):
        results.update(rows["result"].to_pylist())
        taken.add(_timed(rows, kind), [], "seconds")
    return Outcome(None, kind, results, taken.summary_of(()), Summary())


def load_runs(tables: ServerTables, kind: Kind, days: Sequence[date]) -> Runs:
    """Read the runs of a period."""
    keys = [key for key in (kind.name, kind.node) if key]
    gathered = {key: _OutcomeCollector(kind, key) for key in keys}
    by_day, by_hour, unnamed = {}, Counter[tuple[str | None, int]](), Samples()
    columns = [*keys, "started", "seconds", "result", *(["waited"] if keys else [])]
    for day, rows in tables.tables_by_day(kind.table, days, columns):
        by_day[day] = Results({result: count for (result,), count in count_rows(rows, ["result"]).items()})
        if not kind.name:
            unnamed.add(_timed(rows, kind), [], "seconds")
        for one in gathered.values():
            one.add(rows)
        if kind.node:
            by_hour.update(_hours(rows, kind.node))
    seconds = (gathered[kind.name].taken if kind.name else unnamed).all()
    total = Outcome(None, kind, sum(by_day.values(), Results()), summarize([seconds]), Summary())
    named, on_nodes = (gathered[key].outcomes() if key else () for key in (kind.name, kind.node))
    return Runs(total, named, on_nodes, by_day, by_hour, seconds)


def count_rows(rows: pa.Table, keys: Sequence[str]) -> Counter[tuple[str | None, ...]]:
    """Count rows by the values of columns."""
    groups = rows.group_by(list(keys), use_threads=False).aggregate([([], "count_all")])
    return Counter(dict(zip(iterate_rows(groups, keys), groups["count_all"].to_pylist(), strict=True)))


class _OutcomeCollector:
    """Collects runs by name or node."""

    def __init__(self, kind: Kind, key: str) -> None:
        self._kind, self._key = kind, key
        self._results: dict[str | None, Results] = {}
        self.taken, self._waited = Samples(), Samples()

    def add(self, rows: pa.Table) -> None:
        """Add a day's runs."""
        for (name, result), count in count_rows(rows, [self._key, "result"]).items():
            self._results.setdefault(name, Results())[result] += count
        self.taken.add(_timed(rows, self._kind), [self._key], "seconds")
        if self._key == self._kind.name:
            self._waited.add(rows, [self._key], "waited")

    def outcomes(self) -> list[Outcome]:
        """Outcomes, most runs first."""
        found = [
            Outcome(name, self._kind, results, self.taken.summary_of((name,)), self._waited.summary_of((name,)))
            for name, results in self._results.items()
        ]
        return sorted(found, key=lambda one: (-one.runs, one.name or ""))


def _timed(rows: pa.Table, kind: Kind) -> pa.Table:
    return rows.filter(pc.is_in(rows["result"], pa.array(kind.timed))) if kind.timed else rows


def _hours(rows: pa.Table, node: str) -> Counter[tuple[str | None, int]]:
    started = rows.filter(pc.is_valid(rows["started"]))
    hours = pa.table({"node": started[node], "hour": pc.hour(started["started"])})
    return Counter(
        {(name, int(hour or 0)): count for (name, hour), count in count_rows(hours, ["node", "hour"]).items()}
    )
