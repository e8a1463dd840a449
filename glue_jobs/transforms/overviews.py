"""What is asked of jobs, orders and push jobs of a day together: throughput, timeouts, waits, slowest, most failing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.transforms.group_by import Groups, begins_of, column, joined, ratio, texts, time_of

MOST: Final = 10
"""So many of the slowest and of the most failing are listed."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a day."""

    jobs: pa.Table
    jobsets: pa.Table
    orders: pa.Table
    pushes: pa.Table


@dataclass(frozen=True, slots=True)
class _Kind:
    """Runs of a kind: what they are called, where they are found, and which of them failed."""

    kind: str
    runs: pa.Table
    name: pa.Array
    key: pa.Array
    node: pa.Array
    has_failed: pa.Array

    def where(self, condition: pa.Array) -> dict[str, pa.Array]:
        """Those the condition is true of."""
        columns = {
            "kind": texts(self.kind, self.runs.num_rows),
            "name": self.name,
            "key": self.key,
            "node": self.node,
            **{name: column(self.runs, name) for name in ("started", "ended", "seconds")},
        }
        return {name: values.filter(pc.fill_null(condition, False)) for name, values in columns.items()}


def throughput(parts: pa.Table) -> pa.Table:
    """How many events of each type there were in each hour."""
    hours = Groups(parts, ["hour_us", "type"])
    return pa.table({"hour": time_of(hours.key("hour_us")), "type": hours.key("type"), "events": hours.sum("events")})


def timeouts(runs: Runs) -> pa.Table:
    """What was given up."""
    jobs, _, pushes = _kinds(runs)
    sets = _Kind(
        "jobset",
        runs.jobsets,
        texts(None, runs.jobsets.num_rows),
        _path("/jobset/", column(runs.jobsets, "jobset")),
        column(runs.jobsets, "node"),
        pa.nulls(runs.jobsets.num_rows, pa.bool_()),
    )
    return joined(
        [
            jobs.where(pc.equal(column(runs.jobs, "result"), "timeout")),
            sets.where(pc.equal(column(runs.jobsets, "result"), "timeout")),
            pushes.where(pc.equal(column(runs.pushes, "result"), "timed_out")),
        ]
    )


def waits(runs: Runs) -> pa.Table:
    """How long things waited until they began."""
    waited = joined(
        [
            {"kind": texts(one.kind, one.runs.num_rows), "name": one.name, "waited": column(one.runs, "waited")}
            for one in _kinds(runs)
        ]
    )
    named = Groups(waited.filter(pc.is_valid(waited["waited"])), ["kind", "name"])
    return pa.table(
        {"kind": named.key("kind"), "name": named.key("name"), "waits": named.size, **named.durations("waited")}
    )


def slowest(runs: Runs) -> pa.Table:
    """The longest runs of each kind."""
    has_finished = pc.is_in(column(runs.jobs, "result"), pa.array(["success", "failure"]))
    found = []
    for one in _kinds(runs):
        condition = pc.is_valid(column(one.runs, "seconds"))
        found.append(one.where(pc.and_(condition, has_finished) if one.kind == "job" else condition))
    order = [("kind", "ascending"), ("seconds", "descending"), ("key", "ascending"), ("started", "ascending")]
    return _ranked(joined(found), order)


def most_failing(runs: Runs) -> pa.Table:
    """The types, chains and commands with the most failures."""
    found = joined(
        [
            {
                "kind": texts(one.kind, one.runs.num_rows),
                "name": one.name,
                "result": column(one.runs, "result"),
                "failed": pc.fill_null(one.has_failed, False).cast(pa.int64()),
            }
            for one in _kinds(runs)
        ]
    )
    named = Groups(found, ["kind", "name"])
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
    """The first rows of each kind, numbered."""
    in_order = rows.sort_by(list(order))
    kinds = column(in_order, "kind").to_numpy(zero_copy_only=False)
    is_first = np.ones(len(kinds), dtype=bool)
    is_first[1:] = kinds[1:] != kinds[:-1]
    rank = pa.array((np.arange(len(kinds)) - begins_of(is_first) + 1).astype(np.int32))
    return in_order.append_column("rank", rank).filter(pc.less_equal(rank, MOST))


def _kinds(runs: Runs) -> tuple[_Kind, _Kind, _Kind]:
    jobs, orders, pushes = runs.jobs, runs.orders, runs.pushes
    job, order, push = (column(one, "result") for one in (jobs, orders, pushes))
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
            texts(None, orders.num_rows),
            pc.equal(order, "failure"),
        ),
        _Kind(
            "push",
            pushes,
            column(pushes, "command"),
            _path("/push/", column(pushes, "job")),
            texts(None, pushes.num_rows),
            pc.not_equal(push, "complete"),
        ),
    )


def _path(folder: str, names: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(texts(folder, len(names)), names.cast(pa.string()), "")
