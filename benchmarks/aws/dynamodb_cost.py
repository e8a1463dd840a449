"""Cost of events on DynamoDB: write units from item sizes, and CPU time per call."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from benchmarks.aws import dynamodb_client
from benchmarks.load.job_events import job_events
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal
from chalicelib.adapters.dynamodb.capacity import item_size, write_units
from chalicelib.adapters.dynamodb.items import item_from_commit
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.wiring import new_request_id

EVENTS = 4_000
UNITS: dict[int, Goal | None] = {1: None, 20: Goal(110, at_most=True), 200: None}
"""Events per commit: the goal, in write units per 1,000 events."""

_AT_MS = 1_794_700_000_000


def measure(quick: bool = False) -> Iterator[Table]:
    """Write units by item size, and CPU time compared with boto3."""
    yield Table("write units per 1,000 events", tuple(_unit_rows()))
    yield dynamodb_client.measure(rounds=3 if quick else 7, calls=100 if quick else 300)


def make_commits(batch: int, number: int) -> list[Commit]:
    """Commits of `batch` job events each, `number` events in total."""
    texts = job_texts(job_events(number))
    groups = [texts[start : start + batch] for start in range(0, number, batch)]
    appends = [Append(1, tuple(group), new_request_id()) for group in groups]
    first = next_commit(Head(1), appends[0], _AT_MS)
    return list(accumulate(appends[1:], _next_commit, initial=first))


def job_texts(events: Sequence[dict[str, Any]]) -> list[str]:
    """Job events as stored in the log after `POST /events/job`."""
    return encode_all([JOB_VOCABULARY.new_event(event["payload"]["data"]) for event in events])


def encode_all(events: Sequence[NewEvent]) -> list[str]:
    """Encode each event separately, because a request may not have this many."""
    return [encode_within_limits([event])[0] for event in events]


def _next_commit(commit: Commit, append: Append) -> Commit:
    return next_commit(commit.head, append, _AT_MS + commit.session * 250)


def _unit_rows() -> Iterator[Row]:
    for batch, goal in UNITS.items():
        sizes = [item_size(item_from_commit(commit)) for commit in make_commits(batch, EVENTS)]
        units = sum(map(write_units, sizes)) * 1000 / EVENTS
        values = {"units": units, "bytes/event": sum(sizes) / EVENTS}
        yield Row(f"{batch} per commit", "", values, (goal,) if goal else ())
