"""From parts to tables: first the runs, whichever days they are told in; then, day by day, all that is said of them."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.schemas import TABLES
from glue_jobs.transforms.group_by import column
from glue_jobs.transforms.jobs import job_runs, job_statistics
from glue_jobs.transforms.jobsets import jobsets, set_members
from glue_jobs.transforms.orders import chain_nodes, of_runs, order_runs, order_steps, setbacks
from glue_jobs.transforms.overviews import Runs, most_failing, slowest, throughput, timeouts, waits
from glue_jobs.transforms.partial_aggregates import SCHEMAS
from glue_jobs.transforms.pushes import push_node_runs, push_nodes, push_runs

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "jobs": ("job",),
    "jobsets": ("jobset",),
    "orders": ("chain", "order"),
    "pushes": ("job",),
}
"""By what parts are added up: those with the same must meet."""


_MEMBER: Final = pa.schema(
    [("jobset", pa.int64()), ("job", pa.int64()), ("at_us", pa.int64()), ("event_id", pa.int64()), ("code", pa.int32())]
)


def with_members(parts: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The parts, those of sets with what parts of jobs say of them."""
    members = set_members(parts["jobs"]).cast(_MEMBER)
    both = pa.concat_tables([parts["jobsets"], members], promote_options="default")
    return {**parts, "jobsets": both}


def empty_parts() -> dict[str, pa.Table]:
    """No parts of any kind."""
    return with_members({kind: schema.empty_table() for kind, schema in SCHEMAS.items()})


def runs_of(parts: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """What the parts of one server add up to, each row with its day; all parts of a run are among them."""
    orders = of_runs(parts["orders"])
    return {
        "job_runs": job_runs(parts["jobs"]),
        "jobsets": jobsets(parts["jobsets"]),
        "order_runs": order_runs(orders),
        "order_steps": order_steps(orders),
        "setbacks": setbacks(orders),
        "push_runs": push_runs(parts["pushes"]),
        "push_node_runs": push_node_runs(parts["pushes"]),
    }


def empty_runs() -> dict[str, pa.Table]:
    """No runs of any kind."""
    return {**runs_of(empty_parts()), "throughput": SCHEMAS["throughput"].empty_table()}


def tables_of(runs: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """All tables of one day of one server."""
    told = Runs(runs["job_runs"], runs["jobsets"], runs["order_runs"], runs["push_runs"])
    made = {
        "job_runs": told.jobs,
        "job_statistics": job_statistics(told.jobs),
        "throughput": throughput(runs["throughput"]),
        "jobsets": told.jobsets,
        "timeouts": timeouts(told),
        "order_runs": told.orders,
        "order_steps": runs["order_steps"],
        "chain_nodes": chain_nodes(runs["order_steps"], runs["setbacks"]),
        "push_runs": told.pushes,
        "push_nodes": push_nodes(runs["push_node_runs"]),
        "waits": waits(told),
        "slowest": slowest(told),
        "most_failing": most_failing(told),
    }
    return {name: _in_order(name, table) for name, table in made.items()}


def by_day(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each day."""
    if not table.num_rows:
        return
    days = column(table, "day").cast(pa.int32()).to_numpy(zero_copy_only=False)
    order = np.argsort(days, kind="stable")
    in_order, days = table.take(pa.array(order)), days[order]
    changes = np.flatnonzero(np.diff(days)) + 1
    for begin, end in zip(np.r_[0, changes], np.r_[changes, len(days)], strict=True):
        yield str(np.datetime64(int(days[begin]), "D")), in_order.slice(begin, end - begin)


def _in_order(name: str, table: pa.Table) -> pa.Table:
    """The table with the columns that it is to have, its rows in the order of the first of them."""
    schema = TABLES[name]
    if not table.num_rows:
        return schema.empty_table()
    told = table.select(schema.names).cast(schema)
    return told.sort_by([(column_, "ascending") for column_ in schema.names[:4]])


def key_of(kind: str, table: pa.Table) -> pa.Array:
    """What the parts of a kind are added up by, in one column."""
    keys = [column(table, name).cast(pa.string()) for name in KEYS[kind]]
    return keys[0] if len(keys) == 1 else pc.binary_join_element_wise(*keys, ",")
