"""Write the dataset of the benchmarks directly to the stores of Annals."""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.load import dataset
from benchmarks.load.dataset import BATCH, JOBS, ORDERS, PlainEvent
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log, Views

__all__ = ["BATCH", "JOBS", "ORDERS", "commits", "fill", "new_event", "project", "store"]

SERVER = 1
STEP_MS = 70
AT_MS = 1_794_000_000_000

_COMMITS_PER_WRITE = 500


def store(directory: Path, events: int, jobs: int = JOBS) -> None:
    """Fill the data directory of an embedded server with events, and build the views."""
    log_database = Database(directory / "annals.sqlite", durable=False)
    views_database = Database(directory / "views.sqlite", SCHEMA, durable=False)
    log, views = SqliteLog(log_database), SqliteViews(views_database)
    Organizations(log, Appender(log, lambda: AT_MS)).create("local")
    fill(log, events, jobs=jobs)
    project(views, log)
    log_database.close()
    views_database.close()


def fill(log: Log, events: int, jobs: int = JOBS) -> None:
    """Append events in commits of 20."""
    pending: list[Commit] = []
    for commit in commits(events, jobs):
        pending.append(commit)
        if len(pending) == _COMMITS_PER_WRITE:
            log.append(pending)
            pending = []
            _show_progress("stored", commit.session * BATCH, events)
    if pending:
        log.append(pending)


def project(views: Views, log: Log, limit: int = 200) -> None:
    """Build the views of all stored events."""
    consumer, done, total = projector(views), 0, log.head(SERVER).session
    while handled := run_once(consumer, SERVER, log, views, limit):
        done += handled
        _show_progress("projected", done * BATCH, total * BATCH)
    _show_progress("", 0, 0)


def commits(events: int, jobs: int = JOBS) -> Iterator[Commit]:
    """The dataset in commits of 20 events."""
    head = Head(SERVER)
    source = dataset.events(events, jobs)
    for number in range(events // BATCH):
        new = [new_event(event) for event in islice(source, BATCH)]
        commit = next_commit(head, Append(SERVER, encode_within_limits(new), f"r{number}"), AT_MS + number * STEP_MS)
        head = commit.head
        yield commit


def new_event(event: PlainEvent) -> NewEvent:
    event_type, key, data = event
    return NewEvent(type=event_type, key=key, payload=JsonPayload(type="json", data=data))


def _show_progress(step: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{step} {done:,} of {total:,} events" if step else "\r" + " " * 50 + "\r")
        sys.stderr.flush()
