"""Runs of job sets, from their events and from the jobs that name them."""

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.transforms.group_by import Groups, column, seconds_between, to_date, to_timestamp, where, with_columns


def set_members(jobs: pa.Table) -> pa.Table:
    """Partials of jobs that name a set when they start or end, as partials of that set."""
    is_member = pc.and_(pc.is_valid(column(jobs, "jobset")), pc.is_valid(column(jobs, "of_set_us")))
    found = jobs.filter(is_member)
    return found.select(["jobset", "job", "of_set_us", "ended_id", "code"]).rename_columns(
        ["jobset", "job", "at_us", "event_id", "code"]
    )


def jobsets(parts: pa.Table) -> pa.Table:
    """One row per set: from its creation to its end, with the results of its jobs. `parts` include its members."""
    name, at_us, event_id = (column(parts, one) for one in ("name", "at_us", "event_id"))
    is_created = pc.equal(name, "createJobSet")
    is_ended = pc.is_in(name, pa.array(["finishJobSet", "cleanJobSet"]))
    derived = {
        "started_us": where(at_us, is_created),
        "created_id": where(event_id, is_created),
        "ended_us": where(at_us, is_ended),
        "ended_id": where(event_id, is_ended),
    }
    sets = Groups(with_columns(parts, derived), ["jobset"])
    started, ended, end = sets.min("started_us"), sets.max("ended_us"), sets.last("name", by="ended_id")
    jobs = _jobs(parts, sets)
    return pa.table(
        {
            "day": to_date(sets.min("at_us")),
            "jobset": sets.key("jobset"),
            "node": sets.first("node", by="created_id"),
            "started": to_timestamp(started),
            "ended": to_timestamp(ended),
            "seconds": seconds_between(started, ended),
            "result": where(
                pc.if_else(pc.equal(end, "finishJobSet"), "complete", "timeout"),
                pc.is_valid(end),
            ),
            "planned": sets.first("planned", by="created_id"),
            **jobs,
        }
    )


def _jobs(parts: pa.Table, sets: Groups) -> dict[str, pa.Array]:
    """Number of jobs in each set, and their results."""
    members = parts.filter(pc.is_valid(column(parts, "job")))
    has_code = where(column(members, "event_id"), pc.is_valid(column(members, "code")))
    jobs = Groups(members.append_column("coded_id", has_code), ["jobset", "job"])
    results = pa.table(
        {"jobset": jobs.key("jobset"), "code": jobs.last("code", by="coded_id").cast(pa.int32()).cast(pa.string())}
    )
    of_sets = Groups(results, ["jobset"])
    places = pc.index_in(sets.key("jobset"), of_sets.key("jobset"))
    counts = {
        "jobs": of_sets.size,
        "succeeded": of_sets.count("code", "1"),
        "failed": of_sets.count("code", "0"),
        "timeouts": of_sets.count("code", "2"),
    }
    return {name: pc.fill_null(count.take(places), 0) for name, count in counts.items()}
