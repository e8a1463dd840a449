"""Runs of push jobs, and statistics of their nodes."""

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.transforms.group_by import (
    Groups,
    column,
    ratio,
    seconds_between,
    to_date,
    to_timestamp,
    where,
    with_columns,
)


def push_runs(parts: pa.Table) -> pa.Table:
    """One row per push job: its command, votes, runs and result."""
    name, at_us, event_id = (column(parts, one) for one in ("name", "at_us", "event_id"))
    is_start, is_over = pc.equal(name, "start"), pc.equal(name, "job_complete")
    derived = {
        "started_us": where(at_us, is_start),
        "started_id": where(event_id, is_start),
        "quorum_us": where(at_us, pc.equal(name, "quorum_succeeded")),
        "ended_us": where(at_us, is_over),
        "ended_id": where(event_id, is_over),
        "outcome": _outcome(parts),
    }
    jobs = Groups(with_columns(parts, derived), ["job"])
    started, ended = jobs.min("started_us"), jobs.min("ended_us")
    return pa.table(
        {
            "day": to_date(jobs.min("at_us")),
            "job": jobs.key("job"),
            "command": jobs.first("command", by="started_id"),
            "started": to_timestamp(started),
            "ended": to_timestamp(ended),
            "seconds": seconds_between(started, ended),
            "waited": seconds_between(started, jobs.min("quorum_us")),
            "result": jobs.first("status", by="ended_id"),
            "nodes": jobs.first("node_count", by="started_id"),
            "quorum": jobs.first("quorum", by="started_id"),
            "votes": jobs.count("name", "quorum_vote"),
            "willing": jobs.count("outcome", "willing"),
            "ran": jobs.count("name", "run_start"),
            "succeeded": jobs.count("outcome", "succeeded"),
            "failed": jobs.count("outcome", "failed"),
        }
    )


def push_node_runs(parts: pa.Table) -> pa.Table:
    """One row per push job and node."""
    jobs = Groups(parts, ["job"])
    first = jobs.min("at_us").take(pc.index_in(column(parts, "job"), jobs.key("job")))
    name, at_us = column(parts, "name"), column(parts, "at_us")
    derived = {
        "first_us": first,
        "outcome": _outcome(parts),
        "began_us": where(at_us, pc.equal(name, "run_start")),
        "ended_us": where(at_us, pc.equal(name, "run_complete")),
    }
    nodes = Groups(with_columns(parts, derived).filter(pc.is_valid(column(parts, "node"))), ["job", "node"])
    return pa.table(
        {
            "day": to_date(nodes.min("first_us")),
            "node": nodes.key("node"),
            "seconds": seconds_between(nodes.min("began_us"), nodes.max("ended_us")),
            "votes": nodes.count("name", "quorum_vote"),
            "willing": nodes.count("outcome", "willing"),
            "unwilling": nodes.count("outcome", "unwilling"),
            "rehabs": nodes.count("name", "rehab"),
            "runs": nodes.count("name", "run_start"),
            "succeeded": nodes.count("outcome", "succeeded"),
            "failed": nodes.count("outcome", "failed"),
        }
    )


def push_nodes(runs: pa.Table) -> pa.Table:
    """Availability and run times of each node in a day's push jobs."""
    nodes = Groups(runs, ["node"])
    votes, willing, unwilling = (nodes.sum(name) for name in ("votes", "willing", "unwilling"))
    answered = pc.add(willing, unwilling)
    return pa.table(
        {
            "node": nodes.key("node"),
            "jobs": nodes.size,
            "votes": votes,
            "willing": willing,
            "unwilling": unwilling,
            "unavailable": pc.subtract(votes, answered),
            "availability": ratio(answered, votes),
            **{name: nodes.sum(name) for name in ("rehabs", "runs", "succeeded", "failed")},
            **nodes.durations(),
        }
    )


def _outcome(parts: pa.Table) -> pa.Array:
    """The outcome of a node's vote or run."""
    name, status = column(parts, "name"), pc.fill_null(column(parts, "status"), "")
    is_success = pc.equal(status, "success")
    vote = pc.if_else(is_success, "willing", pc.if_else(pc.equal(status, "failure"), "unwilling", "unavailable"))
    run = pc.if_else(is_success, "succeeded", "failed")
    of_vote = where(vote, pc.equal(name, "quorum_vote"))
    return pc.coalesce(of_vote, where(run, pc.equal(name, "run_complete")))
