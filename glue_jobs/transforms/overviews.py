"""Overviews of all runs of a day: throughput, timeouts, waits, slowest, most failing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.transforms.group_by import Groups, column, concat_rows, constant_text, group_starts, ratio, to_timestamp

MAX_LISTED: Final = 10
"""Number of rows per kind in `slowest` and `most_failing`."""


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs of a day."""

    jobs: pa.Table
    jobsets: pa.Table
    orders: pa.Table
    pushes: pa.Table


@dataclass(frozen=True, slots=True)
class _Kind:
    """Runs of one kind with the columns that all kinds have."""

    kind: str
    runs: pa.Table
    name: pa.Array
    key: pa.Array
    node: pa.Array
    has_failed: pa.Array

    def where(self, condition: pa.Array) -> dict[str, pa.Array]:
        """The runs that match the condition, as columns."""
        columns = {
            "kind": constant_text(self.kind, self.runs.num_rows),
            "name": self.name,
            "key": self.key,
            "node": self.node,
            **{name: column(self.runs, name) for name in ("started", "ended", "seconds")},
        }
        return {name: values.filter(pc.fill_null(condition, False)) for name, values in columns.items()}


def throughput(parts: pa.Table) -> pa.Table:
    """Number of events by hour and type."""
    hours = Groups(parts, ["hour_us", "type"])
    return pa.table(
        {"hour": to_timestamp(hours.key("hour_us")), "type": hours.key("type"), "events": hours.sum("events")}
    )


def timeouts(runs: Runs) -> pa.Table:
    """Runs that timed out."""
    jobs, _, pushes = _kinds(runs)
    sets = _Kind(
        "jobset",
        runs.jobsets,
        constant_text(None, runs.jobsets.num_rows),
        _path("/jobset/", column(runs.jobsets, "jobset")),
        column(runs.jobsets, "node"),
        pa.nulls(runs.jobsets.num_rows, pa.bool_()),
    )
    return concat_rows(
        [
            jobs.where(pc.equal(column(runs.jobs, "result"), "timeout")),
            sets.where(pc.equal(column(runs.jobsets, "result"), "timeout")),
            pushes.where(pc.equal(column(runs.pushes, "result"), "timed_out")),
        ]
    )


def waits(runs: Runs) -> pa.Table:
    """Time from creation to start, by kind and name."""
    waited = concat_rows(
        [
            {
                "kind": constant_text(kind.kind, kind.runs.num_rows),
                "name": kind.name,
                "waited": column(kind.runs, "waited"),
            }
            for kind in _kinds(runs)
        ]
    )
    named = Groups(waited.filter(pc.is_valid(waited["waited"])), ["kind", "name"])
    return pa.table(
        {"kind": named.key("kind"), "name": named.key("name"), "waits": named.size, **named.durations("waited")}
    )


def slowest(runs: Runs) -> pa.Table:
    """The longest runs of each kind."""
    has_finished = pc.is_in(column(runs.jobs, "result"), pa.array(["success", "failure"]))
    finished = []
    for kind in _kinds(runs):
        condition = pc.is_valid(column(kind.runs, "seconds"))
        finished.append(kind.where(pc.and_(condition, has_finished) if kind.kind == "job" else condition))
    order = [("kind", "ascending"), ("seconds", "descending"), ("key", "ascending"), ("started", "ascending")]
    return _ranked(concat_rows(finished), order)


def most_failing(runs: Runs) -> pa.Table:
    """The types, chains and commands with the most failures."""
    results = concat_rows(
        [
            {
                "kind": constant_text(kind.kind, kind.runs.num_rows),
                "name": kind.name,
                "result": column(kind.runs, "result"),
                "failed": pc.fill_null(kind.has_failed, False).cast(pa.int64()),
            }
            for kind in _kinds(runs)
        ]
    )
    named = Groups(results, ["kind", "name"])
    ended, failures = named.count("result"), named.sum("failed")
    table = pa.table(
        {
            "kind": named.key("kind"),
            "name": named.key("name"),
            "ended": ended,
            "failures": failures,
            "failure_rate": ratio(failures, ended),
        }
    ).filter(pc.greater(failures, 0))
    order = [("kind", "ascending"), ("failures", "descending"), ("failure_rate", "descending"), ("name", "ascending")]
    return _ranked(table, order)


def _ranked(rows: pa.Table, order: Sequence[tuple[str, str]]) -> pa.Table:
    """The first rows of each kind, with their rank."""
    in_order = rows.sort_by(list(order))
    kinds = column(in_order, "kind").to_numpy(zero_copy_only=False)
    is_first = np.ones(len(kinds), dtype=bool)
    is_first[1:] = kinds[1:] != kinds[:-1]
    rank = pa.array((np.arange(len(kinds)) - group_starts(is_first) + 1).astype(np.int32))
    return in_order.append_column("rank", rank).filter(pc.less_equal(rank, MAX_LISTED))


def _kinds(runs: Runs) -> tuple[_Kind, _Kind, _Kind]:
    jobs, orders, pushes = runs.jobs, runs.orders, runs.pushes
    job, order, push = (column(table, "result") for table in (jobs, orders, pushes))
    return (
        _Kind(
            "job",
            jobs,
            column(jobs, "type"),
            _path("/job/", column(jobs, "job")),
            column(jobs, "node"),
            pc.is_in(job, pa.array(["failure", "timeout"])),
        ),
        _Kind(
            "order",
            orders,
            column(orders, "chain"),
            pc.binary_join_element_wise(column(orders, "chain"), column(orders, "order"), ","),
            constant_text(None, orders.num_rows),
            pc.equal(order, "failure"),
        ),
        _Kind(
            "push",
            pushes,
            column(pushes, "command"),
            _path("/push/", column(pushes, "job")),
            constant_text(None, pushes.num_rows),
            pc.not_equal(push, "complete"),
        ),
    )


def _path(folder: str, names: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(constant_text(folder, len(names)), names.cast(pa.string()), "")
