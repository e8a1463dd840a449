"""The two event stores that `castore_units` compares. Both write and read through the metering proxy."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NoReturn

from benchmarks.aws.dynamodb_cost import job_texts
from benchmarks.aws.dynamodb_units import POLL_S, RUN_COMMITS
from benchmarks.aws.metering_proxy import Meter
from benchmarks.peers.servers import ROOT
from chalicelib.adapters.aws.client import DYNAMODB, create_client
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.tables import create_tables
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.queue.ingest_queue import SqsIngestQueue
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.ingest_message import IngestMessage
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.feeds.notifiers import PollingNotifier
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.ingest import Ingester
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.objects.snapshots import object_snapshot
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.wiring import new_request_id
from infra.deploy.local.emulator import REGION

SINGLE_EVENTS = 1_000
"""Number of events written one by one. More are not needed because each costs the same."""
JOB_EVENTS = 10
STEPS = JOB_EVENTS - 3
BATCH = 20
SQS_BATCH = 10
"""Messages of the ingest queue per commit."""
AT_MS = 1_794_700_000_000

CASTORE = ROOT / "benchmarks" / "castore"
_INDEX = {
    "IndexName": "initialEvents",
    "KeySchema": [
        {"AttributeName": "eventStoreId", "KeyType": "HASH"},
        {"AttributeName": "timestamp", "KeyType": "RANGE"},
    ],
    "Projection": {"ProjectionType": "KEYS_ONLY"},
}
"""The index that the documentation of castore requires."""


class Castore:
    """castore's DynamoDB adapter in a Node process. Each job is an aggregate. Methods return units per 1,000 events."""

    def __init__(self, endpoint: str, meter: Meter, events: Sequence[dict[str, Any]]) -> None:
        self._endpoint = endpoint
        self._meter = meter
        self._client = create_client(DYNAMODB, endpoint, REGION)
        self._events = list(_castore_events(events[:SINGLE_EVENTS]))

    def push_units(self) -> float:
        """Write units of single events."""
        self._create("castore-single")
        return self._units("castore-single", "push", events=self._events).written

    def group_units(self) -> float:
        """Write units of transactional event groups."""
        self._create("castore-groups")
        return self._units("castore-groups", "group", events=self._events, together=BATCH).written

    def jobs(self) -> list[str]:
        """The jobs of which all events were written."""
        counts = Counter(event["aggregateId"] for event in self._events)
        return [job for job, events in counts.items() if events == JOB_EVENTS]

    def read_units(self, jobs: Sequence[str]) -> float:
        """Read units of the events of each job. Its state is folded from them."""
        return self._units("castore-single", "read", len(jobs) * JOB_EVENTS, aggregates=jobs).read

    def _create(self, table_name: str) -> None:
        key = [
            {"AttributeName": "aggregateId", "KeyType": "HASH"},
            {"AttributeName": "version", "KeyType": "RANGE"},
        ]
        kinds = {"aggregateId": "S", "version": "N", "eventStoreId": "S", "timestamp": "S"}
        table = {
            "TableName": table_name,
            "KeySchema": key,
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in kinds.items()],
            "GlobalSecondaryIndexes": [_INDEX],
            "BillingMode": "PAY_PER_REQUEST",
        }
        self._client.call("CreateTable", table)

    def _units(self, name: str, task: str, expected: int = 0, **parameters: object) -> "_Units":
        expected = expected or len(self._events)
        with _count_units(self._meter, expected) as units:
            script_input = json.dumps({"endpoint": self._endpoint, "table": name, "task": task, **parameters})
            command = ["node", "drive.js"]
            done = subprocess.run(command, cwd=CASTORE, input=script_input, capture_output=True, text=True, check=True)
        if int(done.stdout) != expected:
            raise AssertionError(f"castore: {task} handled {done.stdout.strip()} events instead of {expected}")
        return units


class Annals:
    """The services and DynamoDB adapters of Annals. Methods return units per 1,000 events."""

    def __init__(self, endpoint: str, meter: Meter, events: Sequence[dict[str, Any]]) -> None:
        self._meter = meter
        dynamodb = create_client(DYNAMODB, endpoint, REGION)
        create_tables(dynamodb, "log", "views")
        self._log, self._views = DynamoLog(dynamodb, "log", "views"), DynamoViews(dynamodb, "views")
        self._reader = LogReader(self._log, self._views)
        ticks = count()
        self._appender = Appender(self._log, lambda: AT_MS + next(ticks) * 250)
        self._organizations = Organizations(self._log, self._appender)
        self._retention = Retention(self._log, lambda: AT_MS)
        self._texts = job_texts(events)
        self.projection_read_units = 0.0
        """Read units of the last projection."""

    def append_units(self, organization: str, batch: int) -> float:
        """Write units of requests of `batch` events."""
        server, stored = (
            self._create_organization(organization),
            self._texts if batch > 1 else self._texts[:SINGLE_EVENTS],
        )
        with _count_units(self._meter, len(stored)) as units:
            for texts in _chunks(stored, batch):
                self._appender.append(Append(server, texts, new_request_id()))
        return units.written

    def ingest_units(self, organization: str, batch: int) -> float:
        """Write units of queue messages of `batch` events, received ten at a time."""
        self._create_organization(organization)
        messages = [
            IngestMessage(str(number), "", organization, number, 1, 0, "", texts)
            for number, texts in enumerate(_chunks(self._texts, batch), start=1)
        ]
        ingester = Ingester(self._organizations, self._appender, self._log, SqsIngestQueue(_connect_to_nothing, "", ""))
        with _count_units(self._meter, len(self._texts)) as units:
            for received in _chunks(messages, SQS_BATCH):
                if failed := ingester.ingest(received):
                    raise AssertionError(f"not ingested: {failed}")
        return units.written

    def projection_units(self, organization: str, run_commits: int = RUN_COMMITS) -> float:
        """Write units of the views, in runs of `run_commits`."""
        server, consumer = self._organizations.server(organization), projector(self._views)
        with _count_units(self._meter, len(self._texts)) as units:
            while run_once(consumer, server, self._log, self._views, run_commits):
                pass
        self.projection_read_units = units.read
        return units.written

    def job_feed_units(self, organization: str, jobs: Sequence[str]) -> float:
        """Read units of the feed of each job."""
        with _count_units(self._meter, len(jobs) * JOB_EVENTS) as units:
            counts = [self._follow(organization, Selection(keys=(f"/job/{job}",))) for job in jobs]
        if sum(counts) != len(jobs) * JOB_EVENTS:
            raise AssertionError(f"{sum(counts)} events of {len(jobs)} jobs")
        return units.read

    def state_units(self, organization: str, jobs: Sequence[str]) -> float:
        """Read units of the snapshot of each job."""
        server = self._organizations.server(organization)
        with _count_units(self._meter, len(jobs) * JOB_EVENTS) as units:
            states = [object_snapshot(self._reader, server, ObjectRef("job", f"/{job}")).states for job in jobs]
        if not all(states):
            raise AssertionError("a job has no state")
        return units.read

    def follow_units(self, organization: str) -> float:
        """Read units of the feed of all events."""
        with _count_units(self._meter, len(self._texts)) as units:
            followed = self._follow(organization, Selection())
        if followed != len(self._texts):
            raise AssertionError(f"read {followed} of {len(self._texts)} events")
        return units.read

    def idle_poll_units(self, organization: str) -> float:
        """Read units of a long poll that finds no events."""
        server, elapsed = self._organizations.server(organization), [0.0]
        notifier = PollingNotifier(
            lambda pause_s: elapsed.__setitem__(0, elapsed[0] + pause_s), self._log.has_newer_commit, lambda: elapsed[0]
        )
        with _count_units(self._meter, 1_000) as units:
            query = FeedQuery(server, Selection(), self._log.head(server).last_event_id, timeout_s=POLL_S)
            long_poll_blocking(query, self._reader, notifier, self._retention, monotonic=lambda: elapsed[0])
        return units.read

    def _create_organization(self, organization: str) -> int:
        server = self._organizations.create(organization)[0].server
        self._log.head(server)
        return server

    def _follow(self, organization: str, selection: Selection) -> int:
        server = self._organizations.server(organization)
        page = long_poll_blocking(FeedQuery(server, selection), self._reader, PollingNotifier(), self._retention)
        return len(page.texts) if isinstance(page, NonEmpty) else 0


class _Units:
    """Units consumed in a block, per 1,000 events."""

    written = 0.0
    read = 0.0


@contextmanager
def _count_units(meter: Meter, events: int) -> Iterator[_Units]:
    units = _Units()
    meter.reset()
    yield units
    units.written, units.read = meter.written * 1_000 / events, meter.read * 1_000 / events


def _castore_events(events: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Convert events to castore's format, numbering the versions of each job."""
    versions: Counter[str] = Counter()
    for event in events:
        job = event["key"].removeprefix("/job/")
        versions[job] += 1
        yield {
            "aggregateId": job,
            "version": versions[job],
            "type": "/".join(event["type"]),
            "payload": event["payload"]["data"],
        }


def _chunks(whole: Sequence[Any], size: int) -> Iterator[Any]:
    return (tuple(whole[start : start + size]) for start in range(0, len(whole), size))


def _connect_to_nothing() -> NoReturn:
    raise AssertionError("no message is refused or postponed")
