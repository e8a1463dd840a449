"""Capacity units of castore's workload on DynamoDB, counted by item size: the feed and the state of each job.

Run with `python -m benchmarks.aws.job_units`. Events are written 20 at a time, and projected in runs of 100 commits.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.aws.dynamodb_cost import job_texts
from benchmarks.aws.dynamodb_units import RUN_COMMITS, MeteredLog, MeteredViews, open_stores
from benchmarks.load.annals_store import AT_MS, BATCH, SERVER, STEP_MS, project
from benchmarks.load.job_events import job_events
from benchmarks.report.results import Row, Table
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import next_commit
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.feeds.notifiers import PollingNotifier
from chalicelib.services.objects.snapshots import object_snapshot
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

EVENTS = 4_000
JOB_SIZES = (10, 20, 50)


def main() -> None:
    print(Table("units of jobs", tuple(row for size in JOB_SIZES for row in measure(size))))


def measure(job_size: int) -> Iterator[Row]:
    """Read units per job, of a cold process and of a warm one, and write units of the views per 1,000 events."""
    events = job_events(EVENTS, steps=job_size - 3)
    counts: dict[str, int] = {}
    for event in events:
        counts[event["key"]] = counts.get(event["key"], 0) + 1
    jobs = [key for key, count in counts.items() if count == job_size]
    with tempfile.TemporaryDirectory() as directory:
        log, views = open_stores(Path(directory))
        _fill(log, job_texts(events))
        views.units = 0
        project(views, log, RUN_COMMITS)
        written = {kind: units * 1000 / EVENTS for kind, units in views.written.most_common()}
        reads = views.units * 1000 / EVENTS
        yield Row(f"jobs of {job_size}: feed", "units", _feeds(log, views, jobs))
        yield Row(f"jobs of {job_size}: state", "units", _states(log, views, jobs))
        yield Row(f"jobs of {job_size}: views", "units/1,000", {"written": sum(written.values()), "read": reads})
        yield Row(f"jobs of {job_size}: views by kind", "units/1,000", written)


def _fill(log: MeteredLog, texts: list[str]) -> None:
    head = Head(SERVER)
    for number, start in enumerate(range(0, len(texts), BATCH)):
        append = Append(SERVER, tuple(texts[start : start + BATCH]), f"r{number}")
        commit = next_commit(head, append, AT_MS + number * STEP_MS)
        log.append([commit])
        head = commit.head


def _feeds(log: MeteredLog, views: MeteredViews, jobs: list[str]) -> dict[str, float]:
    reader, retention = LogReader(log, views), Retention(log, lambda: AT_MS)
    retention.boundary(SERVER)

    def read(job: str) -> float:
        log.units = views.units = 0
        query = FeedQuery(SERVER, Selection(keys=(job,)))
        long_poll_blocking(query, reader, PollingNotifier(), retention)
        return log.units + views.units

    return _cold_and_warm([read(job) for job in jobs])


def _states(log: MeteredLog, views: MeteredViews, jobs: list[str]) -> dict[str, float]:
    reader = LogReader(log, views)

    def read(job: str) -> float:
        log.units = views.units = 0
        object_snapshot(reader, SERVER, ObjectRef("job", job.removeprefix("/job")))
        return log.units + views.units

    return _cold_and_warm([read(job) for job in jobs])


def _cold_and_warm(units: list[float]) -> dict[str, float]:
    return {"cold": units[0], "warm": sum(units[1:]) / len(units[1:])}


if __name__ == "__main__":
    main()
