"""Find one event of a rare type in a log of 10,000,000 events: latency on SQLite, and read units on DynamoDB.

Run with `python -m benchmarks.annals.rare_type [events [events per commit]]`. Filling and projecting the log takes
minutes.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import quantiles

from benchmarks.aws.dynamodb_cost import job_texts
from benchmarks.aws.dynamodb_units import MeteredLog, MeteredViews, open_stores
from benchmarks.load.annals_store import AT_MS, SERVER, STEP_MS, project
from benchmarks.load.job_events import job_events
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal
from chalicelib.domain.events.event import NewEvent, encode
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.feeds.notifiers import PollingNotifier
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

EVENTS = 10_000_000
BATCH = 1_000
ROUNDS = 200
RARE = NewEvent(type=("rare", "one"))
WRITE_COMMITS = 200
TEMPLATES = 50
"""Number of different commits. They repeat, because building 10,000,000 events would take longer than the rest."""

MAX_MS = Goal(10, at_most=True, column="p50")
MAX_UNITS = Goal(30, at_most=True, column="units")


def main() -> None:
    events, batch = (*map(int, sys.argv[1:]), *(EVENTS, BATCH)[len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as directory:
        log, views = open_stores(Path(directory))
        fill(log, events, batch)
        project(views, log)
        title = f"a rare type among {events:,} events, {batch} per commit"
        print(Table(title, tuple(measure(log, views))))


def fill(log: MeteredLog, events: int, batch: int) -> None:
    """Write commits of job events without keys, and one rare event in the middle."""
    commits = _commits(events, batch)
    while group := list(islice(commits, WRITE_COMMITS)):
        log.append(group)


def measure(log: MeteredLog, views: MeteredViews) -> Iterator[Row]:
    retention = Retention(log, lambda: AT_MS)
    retention.boundary(SERVER)
    for name, selection, limit in (
        ("the rare event", Selection(types=("rare/*",)), None),
        ("the rare event, newest first", Selection(types=("rare/*",)), -10),
        ("a type that does not exist", Selection(types=("never/*",)), None),
        ("the first ten of a common type", Selection(types=("work/finish/*",)), 10),
        ("the last ten of a common type", Selection(types=("work/finish/*",)), -10),
    ):
        query = FeedQuery(SERVER, selection, limit=limit)
        log.units = views.units = 0
        seq = long_poll_blocking(query, LogReader(log, views), PollingNotifier(), retention)
        units = log.units + views.units
        found = len(seq.texts) if isinstance(seq, NonEmpty) else 0
        times_ms = []
        reader = LogReader(log, views)
        for _ in range(ROUNDS):
            began = time.perf_counter()
            long_poll_blocking(query, reader, PollingNotifier(), retention)
            times_ms.append((time.perf_counter() - began) * 1000)
        yield Row(name, "", {"events": found, "units": units, "p50": quantiles(times_ms)[1]}, (MAX_UNITS, MAX_MS))


def _commits(events: int, batch: int) -> Iterator[Commit]:
    texts = [_without_key(text) for text in job_texts(job_events(batch * TEMPLATES))]
    templates = [tuple(texts[start : start + batch]) for start in range(0, len(texts), batch)]
    head, total = Head(SERVER), events // batch
    for number in range(total):
        template = templates[number % TEMPLATES]
        if number == total // 2:
            template = (encode(RARE).decode(), *template[1:])
        head = (commit := next_commit(head, Append(SERVER, template, f"r{number}"), AT_MS + number * STEP_MS)).head
        yield commit


def _without_key(text: str) -> str:
    """The event without its key, so that projecting it builds no objects."""
    event = NewEvent.model_validate_json(text)
    return encode(event.model_copy(update={"type": ("work", *event.type[1:]), "key": None, "payload": None})).decode()


if __name__ == "__main__":
    main()
