"""Runs of a kind (jobs, orders, push jobs, sets) in a period: how they ended, how long they took and waited."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.page.percentiles import Numbers, Samples, Summary, rows_of, summary
from glue_jobs.page.tables import ServerTables

Results = Counter[str | None]
"""How many runs ended in which way; None: not yet."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of runs: where they are, and what their results mean."""

    table: str
    success: str
    timeout: str
    name: str | None = None
    node: str | None = None
    timed: tuple[str, ...] = ()
    """The results whose seconds count; without any, all do."""


JOBS: Final = Kind("job_runs", "success", "timeout", "type", "node", timed=("success", "failure"))
ORDERS: Final = Kind("order_runs", "success", "", "chain")
PUSHES: Final = Kind("push_runs", "complete", "timed_out", "command")
JOBSETS: Final = Kind("jobsets", "complete", "timeout")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the runs of one name, or of one node."""

    name: str | None
    kind: Kind
    results: Results
    taken: Summary
    waited: Summary

    @property
    def runs(self) -> int:
        """How many began."""
        return self.results.total()

    @property
    def ended(self) -> int:
        """How many of them came to an end."""
        return self.runs - self.results[None]

    @property
    def succeeded(self) -> int:
        """How many ended well."""
        return self.results[self.kind.success]

    @property
    def timeouts(self) -> int:
        """How many were given up."""
        return self.results[self.kind.timeout]

    @property
    def failed(self) -> int:
        """How many ended in any other way."""
        return self.ended - self.succeeded - self.timeouts

    @property
    def failures(self) -> int:
        """How many did not end well: failed, or given up."""
        return self.ended - self.succeeded

    @property
    def success_rate(self) -> float | None:
        """The share of success in those that ended."""
        return self.succeeded / self.ended if self.ended else None


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a kind in a period."""

    total: Outcome
    by_name: Sequence[Outcome]
    by_node: Sequence[Outcome]
    by_day: dict[date, Results]
    by_hour: Counter[tuple[str | None, int]]
    """How many began on a node in an hour of the day."""
    seconds: Numbers


def totals(tables: ServerTables, kind: Kind, days: Sequence[date]) -> Outcome:
    """All runs of the days together, from two columns only."""
    results, taken = Results(), Samples()
    for _, rows in tables.each(kind.table, days, ["result", "seconds"]):
        results.update(rows["result"].to_pylist())
        taken.add(_timed(rows, kind), [], "seconds")
    return Outcome(None, kind, results, taken.of(()), Summary())


def runs_of(tables: ServerTables, kind: Kind, days: Sequence[date]) -> Runs:
    """All that a page says of the runs."""
    keys = [key for key in (kind.name, kind.node) if key]
    gathered = {key: _Gathered(kind, key) for key in keys}
    by_day, by_hour, unnamed = {}, Counter[tuple[str | None, int]](), Samples()
    columns = [*keys, "started", "seconds", "result", *(["waited"] if keys else [])]
    for day, rows in tables.each(kind.table, days, columns):
        by_day[day] = Results({result: count for (result,), count in counted(rows, ["result"]).items()})
        if not kind.name:
            unnamed.add(_timed(rows, kind), [], "seconds")
        for one in gathered.values():
            one.add(rows)
        if kind.node:
            by_hour.update(_hours(rows, kind.node))
    seconds = (gathered[kind.name].taken if kind.name else unnamed).all()
    total = Outcome(None, kind, sum(by_day.values(), Results()), summary([seconds]), Summary())
    named, on_nodes = (gathered[key].outcomes() if key else () for key in (kind.name, kind.node))
    return Runs(total, named, on_nodes, by_day, by_hour, seconds)


def counted(rows: pa.Table, keys: Sequence[str]) -> Counter[tuple[str | None, ...]]:
    """How many rows have the same values there."""
    groups = rows.group_by(list(keys), use_threads=False).aggregate([([], "count_all")])
    return Counter(dict(zip(rows_of(groups, keys), groups["count_all"].to_pylist(), strict=True)))


class _Gathered:
    """Runs by their name, or by their node."""

    def __init__(self, kind: Kind, key: str) -> None:
        self._kind, self._key = kind, key
        self._results: dict[str | None, Results] = {}
        self.taken, self._waited = Samples(), Samples()

    def add(self, rows: pa.Table) -> None:
        """Add the runs of a day."""
        for (name, result), count in counted(rows, [self._key, "result"]).items():
            self._results.setdefault(name, Results())[result] += count
        self.taken.add(_timed(rows, self._kind), [self._key], "seconds")
        if self._key == self._kind.name:
            self._waited.add(rows, [self._key], "waited")

    def outcomes(self) -> list[Outcome]:
        """Those with the most runs first."""
        found = [
            Outcome(name, self._kind, results, self.taken.of((name,)), self._waited.of((name,)))
            for name, results in self._results.items()
        ]
        return sorted(found, key=lambda one: (-one.runs, one.name or ""))


def _timed(rows: pa.Table, kind: Kind) -> pa.Table:
    return rows.filter(pc.is_in(rows["result"], pa.array(kind.timed))) if kind.timed else rows


def _hours(rows: pa.Table, node: str) -> Counter[tuple[str | None, int]]:
    started = rows.filter(pc.is_valid(rows["started"]))
    hours = pa.table({"node": started[node], "hour": pc.hour(started["started"])})
    return Counter({(name, int(hour or 0)): count for (name, hour), count in counted(hours, ["node", "hour"]).items()})
