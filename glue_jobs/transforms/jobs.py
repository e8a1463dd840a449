"""Jobs: the runs that their parts add up to, and statistics of them."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.transforms.group_by import Groups, column, day_of, joined, ratio, seconds_between, texts, time_of, where

RESULTS: Final = pa.array(["failure", "success", "timeout"])
"""What the codes of parts mean."""

LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    "day": (),
    "type": ("type",),
    "node": ("node",),
    "type and node": ("type", "node"),
}


def job_runs(parts: pa.Table) -> pa.Table:
    """One row per job: from its first event, whenever that was, to its end."""
    typed_id = where(column(parts, "last_id"), pc.is_valid(column(parts, "type")))
    set_id = where(column(parts, "first_id"), pc.is_valid(column(parts, "jobset")))
    jobs = Groups(parts.append_column("typed_id", typed_id).append_column("set_id", set_id), ["job"])
    started, ended = jobs.min("started_us"), jobs.max("ended_us")
    return pa.table(
        {
            "day": day_of(jobs.min("first_us")),
            "job": jobs.key("job"),
            "type": jobs.last("type", by="typed_id"),
            "node": jobs.last("node", by="last_id"),
            "jobset": jobs.first("jobset", by="set_id"),
            "started": time_of(started),
            "ended": time_of(ended),
            "seconds": seconds_between(started, ended),
            "waited": seconds_between(started, jobs.min("progressed_us")),
            "result": RESULTS.take(jobs.last("code", by="ended_id")),
            **{name: jobs.sum(name) for name in ("redirects", "progresses", "logs", "events")},
        }
    )


def job_statistics(runs: pa.Table) -> pa.Table:
    """Runs of a day: all together, by type, by node, and by both."""
    if not runs.num_rows:
        return pa.table({})
    has_finished = pc.is_in(column(runs, "result"), pa.array(["success", "failure"]))
    timed = runs.append_column("taken", where(column(runs, "seconds"), has_finished))
    levels = []
    for level, keys in LEVELS.items():
        groups = Groups(timed.append_column("day_", texts("", runs.num_rows)), keys or ("day_",))
        ended, succeeded = groups.count("result"), groups.count("result", "success")
        size = len(groups.size)
        levels.append(
            {
                "level": texts(level, size),
                **{name: groups.key(name) if name in keys else texts(None, size) for name in ("type", "node")},
                "runs": groups.size,
                "ended": ended,
                "succeeded": succeeded,
                "failed": groups.count("result", "failure"),
                "timeouts": groups.count("result", "timeout"),
                "success_rate": ratio(succeeded, ended),
                **groups.durations("taken"),
            }
        )
    return joined(levels)
