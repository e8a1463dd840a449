"""A stored history to read: the past that every peer has, in the stores of Annals."""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks import past
from benchmarks.past import BATCH, JOBS, ORDERS, Told
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.services.consumers.consumer import run
from chalicelib.services.consumers.projector import projector
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log, Views

__all__ = ["BATCH", "JOBS", "ORDERS", "commits", "fill", "new_event", "project", "store"]

SERVER = 1
STEP_MS = 70
AT_MS = 1_794_000_000_000

_TOGETHER = 500


def store(directory: Path, events: int, jobs: int = JOBS) -> None:
    """Fill the data directory of an embedded server with so many events, and build the views."""
    log_database = Database(directory / "annals.sqlite", durable=False)
    views_database = Database(directory / "views.sqlite", SCHEMA, durable=False)
    log, views = SqliteLog(log_database), SqliteViews(views_database)
    Organizations(log, Appender(log, lambda: AT_MS)).create("local")
    fill(log, events, jobs=jobs)
    project(views, log)
    log_database.close()
    views_database.close()


def fill(log: Log, events: int, together: int = _TOGETHER, jobs: int = JOBS) -> None:
    """Append so many events in commits of 20."""
    waiting: list[Commit] = []
    for commit in commits(events, jobs):
        waiting.append(commit)
        if len(waiting) == together:
            log.append(waiting, [], 0)
            waiting = []
            _show("stored", commit.session * BATCH, events)
    log.append(waiting, [], 0)


def project(views: Views, log: Log, most: int = 200) -> None:
    """Build the views of all that is stored."""
    consumer, done, total = projector(views), 0, log.head(SERVER).session
    while handled := run(consumer, SERVER, log, views, most):
        done += handled
        _show("projected", done * BATCH, total * BATCH)
    _show("", 0, 0)


def commits(events: int, jobs: int = JOBS) -> Iterator[Commit]:
    """The past, in commits of 20."""
    head = Head(SERVER)
    told = past.events(events, jobs)
    for number in range(events // BATCH):
        new = [new_event(one) for one in islice(told, BATCH)]
        commit = next_commit(head, Append(SERVER, encoded(new), f"r{number}"), AT_MS + number * STEP_MS)
        head = commit.head
        yield commit


def new_event(told: Told) -> NewEvent:
    """As a publisher would give it."""
    event_type, key, data = told
    return NewEvent(type=event_type, key=key, payload=JsonPayload(type="json", data=data))


def _show(what: str, done: int, of: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{what} {done:,} of {of:,} events" if what else "\r" + " " * 50 + "\r")
        sys.stderr.flush()
