"""A stored history to read: events of 20,000 jobs, a folder of 1,000 orders, one event of a rare type."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from chalicelib.domain.appends import Append, encoded
from chalicelib.domain.commits import Commit, next_commit
from chalicelib.domain.events import JsonPayload, NewEvent
from chalicelib.domain.heads import Head
from chalicelib.services.append import Appender
from chalicelib.services.consumers import run
from chalicelib.services.organizations import Organizations
from chalicelib.services.ports import Log, Views
from chalicelib.services.project import projector
from chalicelib.store.sqlite.database import Database
from chalicelib.store.sqlite.log import SqliteLog
from chalicelib.store.sqlite.views import SCHEMA, SqliteViews

JOBS = 20_000
ORDERS = 1_000
BATCH = 20
SERVER = 1
STEP_MS = 70
AT_MS = 1_794_000_000_000

_TOGETHER = 500
_NAMES = ("create", "progress", "progress", "finish")


def store(directory: Path, events: int) -> None:
    """Fill the data directory of an embedded server with so many events, and build the views."""
    log_database = Database(directory / "annals.sqlite", durable=False)
    views_database = Database(directory / "views.sqlite", SCHEMA, durable=False)
    log, views = SqliteLog(log_database), SqliteViews(views_database)
    Organizations(log, Appender(log, lambda: AT_MS)).create("local")
    fill(log, events)
    project(views, log)
    log_database.close()
    views_database.close()


def fill(log: Log, events: int, together: int = _TOGETHER) -> None:
    """Append so many events in commits of 20."""
    waiting: list[Commit] = []
    for commit in commits(events):
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


def commits(events: int) -> Iterator[Commit]:
    """So many events of jobs, orders among them, one of a rare type in the middle."""
    rng = random.Random(7)
    head = Head(SERVER)
    orders = iter(range(ORDERS))
    for number in range(events // BATCH):
        new = [_job_event(rng) for _ in range(BATCH)]
        if number % max(events // BATCH // ORDERS, 1) == 0 and (order := next(orders, None)) is not None:
            new[0] = NewEvent(
                type=("scheduler", "OrderEvent", "OrderAdded"),
                key=f"/folder/chain{order % 10},{order}",
                payload=JsonPayload(type="json", data={"nodeId": "A"}),
            )
        if number == events // BATCH // 2:
            new[-1] = NewEvent(type=("rare", "one"), key="/rare")
        commit = next_commit(head, Append(SERVER, encoded(new), f"r{number}"), AT_MS + number * STEP_MS)
        head = commit.head
        yield commit


def _job_event(rng: random.Random) -> NewEvent:
    job = rng.randrange(JOBS)
    data = {"state": "run", "progress": f"{rng.randrange(100)}%", "message": f"step {rng.randrange(20)} of the backup"}
    return NewEvent(
        type=("job", rng.choice(_NAMES), f"n{job % 50}", f"kind{job % 30}"),
        key=f"/job/{job}",
        payload=JsonPayload(type="json", data=data),
    )


def _show(what: str, done: int, of: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{what} {done:,} of {of:,} events" if what else "\r" + " " * 50 + "\r")
        sys.stderr.flush()
