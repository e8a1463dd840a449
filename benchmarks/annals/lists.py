"""Latency of lists on SQLite, and their read units on DynamoDB, by number of jobs.

Runs in this process. Each job is created and finished later. A few fail, and a few stay open.
`python -m benchmarks.annals.lists 10000 100000 1000000` measures these sizes without storing the results.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.aws.dynamodb_units import MeteredLog, MeteredViews, open_stores
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.vocabularies.job.events import new_event
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.objects.listing import ListQuery, list_objects
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (2_000, 10_000)
PAGE = 50
ROUNDS = 41
LATENCY_GOAL = Goal(20, at_most=True)

_SERVER = 1
_AT_MS = 1_794_000_000_000
_STEP_MS = 100
_JOBS_PER_COMMIT = 50
_FINISH_DELAY = 500
"""A job finishes after this number of other jobs were created."""
_FAILURE_INTERVAL = 9_973
_OPEN_INTERVAL = 997
_COMMITS_PER_WRITE = 200


def measure(directory: Path, sizes: tuple[int, ...] = SIZES) -> Iterator[Table]:
    """A table for each number of jobs."""
    for jobs in sizes:
        folder = directory / str(jobs)
        folder.mkdir(parents=True)
        log = SqliteLog(Database(folder / "annals.sqlite", durable=False))
        views = SqliteViews(Database(folder / "views.sqlite", SCHEMA, durable=False))
        _fill(log, jobs)
        catch_up(projector(views), _SERVER, log, views)
        rows = tuple(_rows(*open_stores(folder), LogReader(log, views), jobs))
        yield Table(f"a list of {PAGE} of {jobs:,} jobs", rows)


def _rows(log: MeteredLog, views: MeteredViews, reader: LogReader, jobs: int) -> Iterator[Row]:
    everything = ListQuery(_SERVER, "job", PathQuery.parse("/"), limit=PAGE)
    boundary = RetentionBoundary(Head(_SERVER), 0)
    middle_us = (_AT_MS + jobs // _JOBS_PER_COMMIT // 2 * _STEP_MS) * 1000
    first = list_objects(everything, reader, boundary)
    queries = {
        "newest": everything,
        "next page": replace(everything, cursor=first.next),
        "in state created": replace(everything, filter=ListFilter(state="created")),
        "failed": replace(everything, filter=ListFilter(result="failure")),
        "of a type": replace(everything, filter=ListFilter(type="type 7")),
        "of a type on a node, 1 of 840 jobs": replace(everything, filter=ListFilter(type="type 7", node="n7")),
        "before a time": replace(everything, until_us=middle_us),
    }
    for name, query in queries.items():
        log.units = views.units = 0
        list_objects(query, LogReader(log, views), boundary)
        units = log.units + views.units
        p50 = _median_ms(partial(list_objects, query, reader, boundary))
        yield Row(
            f"{name}, of {jobs:,}", "ms", {"p50": p50, "read units": units}, (replace(LATENCY_GOAL, column="p50"),)
        )


def _median_ms(run: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run()
        times.append((time.perf_counter() - began) * 1000)
    return median(times)


def _fill(log: SqliteLog, jobs: int) -> None:
    head, pending = Head(_SERVER), list[Commit]()
    for number, start in enumerate(range(0, jobs + _FINISH_DELAY, _JOBS_PER_COMMIT)):
        created = [_event("create", job) for job in range(start, start + _JOBS_PER_COMMIT) if job < jobs]
        ended = range(start - _FINISH_DELAY, start - _FINISH_DELAY + _JOBS_PER_COMMIT)
        finished = [
            _event("finish", job, success="0" if job % _FAILURE_INTERVAL == 0 else "1", message="done")
            for job in ended
            if job >= 0 and job % _OPEN_INTERVAL
        ]
        append = Append(_SERVER, encode_within_limits([*created, *finished]), f"r{number}")
        commit = next_commit(head, append, _AT_MS + number * _STEP_MS)
        head = commit.head
        pending.append(commit)
        if len(pending) == _COMMITS_PER_WRITE:
            log.append(pending)
            pending = []
    log.append(pending)


def _event(name: str, job: int, **more: str) -> NewEvent:
    facts = {"event": name, "node": f"n{job % 40}", "id": job, "type": f"type {job % 21}", **more}
    return new_event({**facts, "params": {"path": f"/data/{job}"}, "props": {"author": f"user {job % 11}"}})


def main() -> None:
    sizes = tuple(map(int, sys.argv[1:])) or SIZES
    with TemporaryDirectory() as folder:
        began = time.monotonic()
        for table in measure(Path(folder), sizes):
            print(f"{table}\n\nfilled and measured in {time.monotonic() - began:.0f} s\n", flush=True)
            began = time.monotonic()


if __name__ == "__main__":
    main()
