"""Runs of jobs, and statistics of them."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.transforms.group_by import (
    Groups,
    column,
    concat_rows,
    constant_text,
    ratio,
    seconds_between,
    to_date,
    to_timestamp,
    where,
)

RESULTS: Final = pa.array(["failure", "success", "timeout"])
"""Results by the codes in partials."""

LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    "day": (),
    "type": ("type",),
    "node": ("node",),
    "type and node": ("type", "node"),
}


def job_runs(parts: pa.Table) -> pa.Table:
    """One row per job, from its first event to its end, over all days."""
    typed_id = where(column(parts, "last_id"), pc.is_valid(column(parts, "type")))
    set_id = where(column(parts, "first_id"), pc.is_valid(column(parts, "jobset")))
    jobs = Groups(parts.append_column("typed_id", typed_id).append_column("set_id", set_id), ["job"])
    started, ended = jobs.min("started_us"), jobs.max("ended_us")
    return pa.table(
        {
            "day": to_date(jobs.min("first_us")),
            "job": jobs.key("job"),
            "type": jobs.last("type", by="typed_id"),
            "node": jobs.last("node", by="last_id"),
            "jobset": jobs.first("jobset", by="set_id"),
            "started": to_timestamp(started),
            "ended": to_timestamp(ended),
            "seconds": seconds_between(started, ended),
            "waited": seconds_between(started, jobs.min("progressed_us")),
            "result": RESULTS.take(jobs.last("code", by="ended_id")),
            **{name: jobs.sum(name) for name in ("redirects", "progresses", "logs", "events")},
        }
    )


def job_statistics(runs: pa.Table) -> pa.Table:
    """Statistics of a day's runs: all together, by type, by node, and by both."""
    if not runs.num_rows:
        return pa.table({})
    has_finished = pc.is_in(column(runs, "result"), pa.array(["success", "failure"]))
    timed = runs.append_column("taken", where(column(runs, "seconds"), has_finished))
    levels = []
    for level, keys in LEVELS.items():
        groups = Groups(timed.append_column("day_", constant_text("", runs.num_rows)), keys or ("day_",))
        ended, succeeded = groups.count("result"), groups.count("result", "success")
        size = len(groups.size)
        levels.append(
            {
                "level": constant_text(level, size),
                **{name: groups.key(name) if name in keys else constant_text(None, size) for name in ("type", "node")},
                "runs": groups.size,
                "ended": ended,
                "succeeded": succeeded,
                "failed": groups.count("result", "failure"),
                "timeouts": groups.count("result", "timeout"),
                "success_rate": ratio(succeeded, ended),
                **groups.durations("taken"),
            }
        )
    return concat_rows(levels)
