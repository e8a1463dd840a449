"""What events cost on DynamoDB: write units from item sizes, and the CPU time that calls take us."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from benchmarks import dynamodb_client
from benchmarks.events import job_events
from benchmarks.results import Row, Table
from benchmarks.table import Goal
from chalicelib.adapters.dynamodb.capacity import item_size, write_units
from chalicelib.adapters.dynamodb.items import item_from_commit
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.domain.vocabularies import job
from chalicelib.wiring import request_id

EVENTS = 4_000
UNITS: dict[int, Goal | None] = {1: None, 20: Goal(110, at_most=True), 200: None}
"""Events per commit: the goal, in write units per 1,000 events."""

_AT_MS = 1_794_700_000_000


def measured(quick: bool = False) -> Iterator[Table]:
    """Units by item sizes, and CPU time beside boto3's."""
    yield Table("write units per 1,000 events", tuple(_unit_rows()))
    yield dynamodb_client.measured(rounds=3 if quick else 7, calls=100 if quick else 300)


def commits_of(batch: int, number: int) -> list[Commit]:
    """`number` job events as a log of commits with `batch` events each."""
    texts = job_texts(job_events(number))
    groups = [texts[start : start + batch] for start in range(0, number, batch)]
    appends = [Append(1, tuple(group), request_id()) for group in groups]
    first = next_commit(Head(1), appends[0], _AT_MS)
    return list(accumulate(appends[1:], _following, initial=first))


def job_texts(events: Sequence[dict[str, Any]]) -> list[str]:
    """Job events as the log keeps them when they come in AnyJob's own JSON, by `POST /events/job`."""
    return encoded_all([job.new_event(event["payload"]["data"]) for event in events])


def encoded_all(events: Sequence[NewEvent]) -> list[str]:
    """The JSON of each event; requests may not have that many, so one by one."""
    return [encoded([event])[0] for event in events]


def _following(commit: Commit, append: Append) -> Commit:
    return next_commit(commit.head, append, _AT_MS + commit.session * 250)


def _unit_rows() -> Iterator[Row]:
    for batch, goal in UNITS.items():
        sizes = [item_size(item_from_commit(commit)) for commit in commits_of(batch, EVENTS)]
        units = sum(map(write_units, sizes)) * 1000 / EVENTS
        values = {"units": units, "bytes/event": sum(sizes) / EVENTS}
        yield Row(f"{batch} per commit", "", values, (goal,) if goal else ())
