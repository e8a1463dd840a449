"""Runs of JobScheduler orders, their steps, and the time spent at each node of a job chain."""

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.transforms.group_by import (
    Groups,
    column,
    group_starts,
    seconds_between,
    to_date,
    to_timestamp,
    where,
    with_columns,
)

_RUN_KEY: Final = ("chain", "order", "run")

Bools: TypeAlias = Any
"""A numpy array of booleans."""


def number_runs(parts: pa.Table) -> pa.Table:
    """The order events in order, with the number of their run.

    A run starts when the order is added, when it starts again after it finished, or when it starts without being added.
    """
    events = parts.sort_by([("chain", "ascending"), ("order", "ascending"), ("event_id", "ascending")])
    is_new = _changes(events, "chain") | _changes(events, "order")
    added, started, finished = (_is(events, name) for name in ("OrderAdded", "OrderStarted", "OrderFinished"))
    # The previous such event tells whether a run is in progress, unless it belongs to another order.
    is_mark = added | started | finished
    place = np.arange(events.num_rows)
    latest = np.maximum.accumulate(np.where(is_mark, place, -1))
    before = np.r_[-1, latest[:-1]][: events.num_rows]
    begin_of_order = group_starts(is_new)
    under_way = (before >= begin_of_order) & ~finished[np.maximum(before, 0)]
    begins = added | (started & ~under_way)
    total = np.cumsum(begins)
    run = total - (total - begins)[begin_of_order]
    return events.append_column("run", pa.array(run.astype(np.int64)))


def order_runs(events: pa.Table) -> pa.Table:
    """One row per run of an order. `events` must have run numbers."""
    name, at_us, event_id = (column(events, field) for field in ("name", "at_us", "event_id"))
    is_ended, is_finished = pc.equal(name, "OrderStepEnded"), pc.equal(name, "OrderFinished")
    is_error = pc.and_(is_ended, pc.fill_null(pc.equal(column(events, "transition"), "Error"), False))
    derived = {
        "added_us": where(at_us, pc.equal(name, "OrderAdded")),
        "started_us": where(at_us, pc.equal(name, "OrderStarted")),
        "ended_us": where(at_us, is_finished),
        "ended_id": where(event_id, is_finished),
        "step_id": where(event_id, is_ended),
        "error": is_error.cast(pa.int64()),
    }
    runs = Groups(with_columns(events, derived), _RUN_KEY)
    added, started, ended = (runs.min("added_us"), runs.min("started_us"), runs.max("ended_us"))
    has_failed = pc.fill_null(pc.equal(runs.last("error", by="step_id"), 1), False)
    return pa.table(
        {
            "day": to_date(runs.min("at_us")),
            **{key: runs.key(key) for key in _RUN_KEY},
            "added": to_timestamp(added),
            "started": to_timestamp(started),
            "ended": to_timestamp(ended),
            "seconds": seconds_between(started, ended),
            "waited": seconds_between(added, started),
            "steps": runs.count("name", "OrderStepStarted"),
            "setbacks": runs.count("name", "OrderSetBack"),
            "suspensions": runs.count("name", "OrderSuspended"),
            "errors": runs.sum("error"),
            "end_node": runs.last("node", by="ended_id"),
            "result": where(pc.if_else(has_failed, "failure", "success"), pc.is_valid(ended)),
        }
    )


def order_steps(events: pa.Table) -> pa.Table:
    """One row per step of a run. A step has ended if the next step event is its end."""
    dated = _dated(events)
    steps = dated.filter(pc.is_in(column(dated, "name"), pa.array(["OrderStepStarted", "OrderStepEnded"])))
    is_start = _is(steps, "OrderStepStarted")
    is_first = _is_first(steps)
    # The next event, if it belongs to the same run and ends the step.
    is_over = np.append(~is_first[1:] & ~is_start[1:], np.zeros(min(steps.num_rows, 1), dtype=bool)) & is_start
    following = pa.array(np.where(is_over, np.arange(steps.num_rows) + 1, 0), mask=~is_over)
    ended = column(steps, "at_us").take(following)
    number = np.cumsum(is_start)
    step = number - (number - is_start)[group_starts(is_first)]
    table = pa.table(
        {
            "day": column(steps, "day"),
            **{key: column(steps, key) for key in _RUN_KEY},
            "step": pa.array(step.astype(np.int64)),
            "node": column(steps, "node"),
            "task": column(steps, "task"),
            "started": to_timestamp(column(steps, "at_us")),
            "ended": to_timestamp(ended),
            "seconds": seconds_between(column(steps, "at_us"), ended),
            "result": pc.utf8_lower(column(steps, "transition").take(following)),
        }
    )
    return table.filter(pa.array(is_start))


def setbacks(events: pa.Table) -> pa.Table:
    """One row per setback of an order."""
    found = _dated(events)
    return found.filter(pc.equal(found["name"], "OrderSetBack")).select(["day", "chain", "node"])


def chain_nodes(steps: pa.Table, back: pa.Table) -> pa.Table:
    """Steps, durations and setbacks at each node of a chain."""
    taken = pa.table(
        {
            "chain": column(steps, "chain"),
            "node": column(steps, "node"),
            "result": column(steps, "result"),
            "seconds": column(steps, "seconds"),
            "step": pa.repeat(1, steps.num_rows),
            "over": pc.is_valid(column(steps, "ended")).cast(pa.int64()),
            "setback": pa.repeat(0, steps.num_rows),
        }
    )
    none = pa.repeat(0, back.num_rows)
    returned = pa.table(
        {
            "chain": column(back, "chain"),
            "node": column(back, "node"),
            "result": pa.nulls(back.num_rows, pa.string()),
            "seconds": pa.nulls(back.num_rows, pa.float64()),
            "step": none,
            "over": none,
            "setback": pa.repeat(1, back.num_rows),
        }
    )
    nodes = Groups(pa.concat_tables([taken, returned]), ["chain", "node"])
    return pa.table(
        {
            "chain": nodes.key("chain"),
            "node": nodes.key("node"),
            "steps": nodes.sum("step"),
            "ended": nodes.sum("over"),
            "errors": nodes.count("result", "error"),
            "setbacks": nodes.sum("setback"),
            **nodes.durations(),
        }
    )


def _dated(events: pa.Table) -> pa.Table:
    """The events of runs, in order, with the day of the run's first event."""
    begin = pa.array(group_starts(_is_first(events)))
    return events.append_column("day", to_date(column(events, "at_us").take(begin)))


def _is_first(events: pa.Table) -> Bools:
    """Whether each row is the first of its run."""
    found = np.zeros(events.num_rows, dtype=bool)
    for key in _RUN_KEY:
        found |= _changes(events, key)
    return found


def _changes(table: pa.Table, name: str) -> Bools:
    """Whether each row's value differs from that of the row before."""
    values = column(table, name)
    found = np.ones(table.num_rows, dtype=bool)
    if table.num_rows > 1:
        found[1:] = pc.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    return found


def _is(table: pa.Table, name: str) -> Bools:
    found: Bools = pc.equal(column(table, "name"), name).to_numpy(zero_copy_only=False)
    return found
