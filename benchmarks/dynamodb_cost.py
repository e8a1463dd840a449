"""What events cost on DynamoDB: write units from item sizes, and the CPU time that an append takes us."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from statistics import median
from typing import Any

from benchmarks.events import job_events
from benchmarks.results import Row, Table
from benchmarks.servers import ROOT
from benchmarks.table import Goal
from chalicelib.aws.client import DYNAMODB, client
from chalicelib.domain.appends import Append, encoded
from chalicelib.domain.commits import Commit, next_commit
from chalicelib.domain.events import NewEvent
from chalicelib.domain.heads import Head
from chalicelib.domain.vocabularies import job
from chalicelib.store.dynamodb.capacity import item_size, write_units
from chalicelib.store.dynamodb.items import SESSION, item_from_commit
from chalicelib.store.dynamodb.log import DynamoLog
from chalicelib.wiring import request_id

EVENTS = 4_000
UNITS: dict[int, Goal | None] = {1: None, 20: Goal(110, at_most=True), 200: None}
"""Events per commit: the goal, in write units per 1,000 events."""
CPU_BATCHES = (1, 20)
PLAIN = "boto3 as it comes"

_REGION = "eu-central-1"
_AT_MS = 1_794_700_000_000
_LOG_TABLE, _VIEWS_TABLE = "annals-log", "annals-views"


def measured(quick: bool = False) -> Iterator[Table]:
    """Units by item sizes, and CPU time beside boto3's."""
    # The stub asks for nobody's credentials, but the SDK signs all the same.
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_EC2_METADATA_DISABLED="true")
    yield Table("write units per 1,000 events", tuple(_unit_rows()))
    with _stub() as endpoint:
        rows = tuple(_cpu_rows(endpoint, rounds=3 if quick else 5, calls=100 if quick else 300))
    yield Table("CPU of an append", rows)


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


def _cpu_rows(endpoint: str, rounds: int, calls: int) -> Iterator[Row]:
    for batch in CPU_BATCHES:
        commits = commits_of(batch, calls * batch)
        puts = (_adapter(endpoint), _plain(endpoint))
        for put in puts:
            _cpu_ms(put, commits[:20])
        pairs = [[_cpu_ms(put, commits) for put in puts] for _ in range(rounds)]
        ours, theirs = median(mine for mine, _ in pairs), median(other for _, other in pairs)
        name = f"{batch} event{'s' if batch > 1 else ''}"
        yield Row(name, "ms", {"Annals": ours, PLAIN: theirs}, (Goal(1, at_most=True, of=PLAIN),))


def _adapter(endpoint: str) -> Callable[[Commit], object]:
    log = DynamoLog(client(DYNAMODB, endpoint, _REGION), _LOG_TABLE, _VIEWS_TABLE)
    return lambda commit: log.append([commit], [], _AT_MS // 1000)


def _plain(endpoint: str) -> Callable[[Commit], object]:
    """The same put with boto3's client as it comes."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415  (it may be another's in other versions of the adapter)

    client = boto3.client("dynamodb", endpoint_url=endpoint, region_name=_REGION)
    return lambda commit: client.put_item(
        TableName=_LOG_TABLE,
        Item=item_from_commit(commit),
        ConditionExpression="attribute_not_exists(#session)",
        ExpressionAttributeNames={"#session": SESSION},
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )


def _cpu_ms(put: Callable[[Commit], object], commits: Sequence[Commit]) -> float:
    start = time.process_time()
    for commit in commits:
        put(commit)
    return (time.process_time() - start) * 1000 / len(commits)


@contextmanager
def _stub() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.dynamodb_stub"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()
