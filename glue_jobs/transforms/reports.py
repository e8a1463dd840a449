"""Makes report tables: combines partials to runs over all days, then computes the tables of each day."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.schemas import TABLES
from glue_jobs.transforms.group_by import column
from glue_jobs.transforms.jobs import job_runs, job_statistics
from glue_jobs.transforms.jobsets import jobsets, set_members
from glue_jobs.transforms.orders import chain_nodes, number_runs, order_runs, order_steps, setbacks
from glue_jobs.transforms.overviews import Runs, most_failing, slowest, throughput, timeouts, waits
from glue_jobs.transforms.partial_aggregates import SCHEMAS
from glue_jobs.transforms.pushes import push_node_runs, push_nodes, push_runs

GROUPING_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "jobs": ("job",),
    "jobsets": ("jobset",),
    "orders": ("chain", "order"),
    "pushes": ("job",),
}
"""Key columns of each kind. Partials with the same key belong to the same run."""


_MEMBER: Final = pa.schema(
    [("jobset", pa.int64()), ("job", pa.int64()), ("at_us", pa.int64()), ("event_id", pa.int64()), ("code", pa.int32())]
)


def with_members(parts: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The partials, with those of job sets extended by members in partials of jobs."""
    members = set_members(parts["jobs"]).cast(_MEMBER)
    both = pa.concat_tables([parts["jobsets"], members], promote_options="default")
    return {**parts, "jobsets": both}


def empty_parts() -> dict[str, pa.Table]:
    return with_members({kind: schema.empty_table() for kind, schema in SCHEMAS.items()})


def combine_runs(parts: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Combine all partials of one server to runs. Each row has its day."""
    orders = number_runs(parts["orders"])
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
    return {**combine_runs(empty_parts()), "throughput": SCHEMAS["throughput"].empty_table()}


def report_tables(runs: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """All report tables of one server and day."""
    day_runs = Runs(runs["job_runs"], runs["jobsets"], runs["order_runs"], runs["push_runs"])
    tables = {
        "job_runs": day_runs.jobs,
        "job_statistics": job_statistics(day_runs.jobs),
        "throughput": throughput(runs["throughput"]),
        "jobsets": day_runs.jobsets,
        "timeouts": timeouts(day_runs),
        "order_runs": day_runs.orders,
        "order_steps": runs["order_steps"],
        "chain_nodes": chain_nodes(runs["order_steps"], runs["setbacks"]),
        "push_runs": day_runs.pushes,
        "push_nodes": push_nodes(runs["push_node_runs"]),
        "waits": waits(day_runs),
        "slowest": slowest(day_runs),
        "most_failing": most_failing(day_runs),
    }
    return {name: _finish(name, table) for name, table in tables.items()}


def split_by_day(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Split a table by its `day` column."""
    if not table.num_rows:
        return
    days = column(table, "day").cast(pa.int32()).to_numpy(zero_copy_only=False)
    order = np.argsort(days, kind="stable")
    sorted_table, days = table.take(pa.array(order)), days[order]
    changes = np.flatnonzero(np.diff(days)) + 1
    for begin, end in zip(np.r_[0, changes], np.r_[changes, len(days)], strict=True):
        yield str(np.datetime64(int(days[begin]), "D")), sorted_table.slice(begin, end - begin)


def _finish(name: str, table: pa.Table) -> pa.Table:
    """Select the columns of the schema, and sort by the first four."""
    schema = TABLES[name]
    if not table.num_rows:
        return schema.empty_table()
    result = table.select(schema.names).cast(schema)
    return result.sort_by([(column_, "ascending") for column_ in schema.names[:4]])


def grouping_key(kind: str, table: pa.Table) -> pa.Array:
    """The key of each row as one text column."""
    keys = [column(table, name).cast(pa.string()) for name in GROUPING_KEYS[kind]]
    return keys[0] if len(keys) == 1 else pc.binary_join_element_wise(*keys, ",")
