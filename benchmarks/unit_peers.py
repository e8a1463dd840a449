"""Who is measured by `castore_units`, and how each is made to write and read through a meter."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from benchmarks.dynamodb_cost import job_texts
from benchmarks.dynamodb_units import POLL_S, RUN_COMMITS
from benchmarks.metering_proxy import Meter
from benchmarks.servers import ROOT
from chalicelib.adapters.aws.client import DYNAMODB, client
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.tables import create_tables
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.ingest_message import Message
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.services.consumers.consumer import run
from chalicelib.services.consumers.projector import projector
from chalicelib.services.feeds.feed import FeedQuery, follow
from chalicelib.services.feeds.notifiers import Looking
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.ingest import ingest
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.objects.snapshots import one
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.wiring import request_id
from infra.deploy.local.emulator import REGION

FEWER = 1_000
"""So many are written one by one, for all of them cost the same."""
JOB_EVENTS = 10
STEPS = JOB_EVENTS - 3
TOGETHER = 20
RECEIVED = 10
"""Messages of the ingest queue that become one commit."""
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
"""As castore's documents ask for."""


class Castore:
    """castore's adapter in a process of Node, each job an aggregate."""

    def __init__(self, endpoint: str, meter: Meter, events: Sequence[dict[str, Any]]) -> None:
        self._endpoint = endpoint
        self._meter = meter
        self._client = client(DYNAMODB, endpoint, REGION)
        self._events = list(_numbered(events[:FEWER]))

    def pushed(self) -> float:
        """Write units of events one by one."""
        self._create("castore-single")
        return self._units("castore-single", "push", events=self._events).written

    def grouped(self) -> float:
        """Write units of groups that are written whole or not at all."""
        self._create("castore-groups")
        return self._units("castore-groups", "group", events=self._events, together=TOGETHER).written

    def jobs(self) -> list[str]:
        """Those that are complete."""
        found = Counter(event["aggregateId"] for event in self._events)
        return [job for job, events in found.items() if events == JOB_EVENTS]

    def read(self, jobs: Sequence[str]) -> float:
        """Read units of the events of each job; its state is folded from them."""
        return self._units("castore-single", "read", len(jobs) * JOB_EVENTS, aggregates=jobs).read

    def _create(self, name: str) -> None:
        key = [
            {"AttributeName": "aggregateId", "KeyType": "HASH"},
            {"AttributeName": "version", "KeyType": "RANGE"},
        ]
        kinds = {"aggregateId": "S", "version": "N", "eventStoreId": "S", "timestamp": "S"}
        table = {
            "TableName": name,
            "KeySchema": key,
            "AttributeDefinitions": [{"AttributeName": one, "AttributeType": kind} for one, kind in kinds.items()],
            "GlobalSecondaryIndexes": [_INDEX],
            "BillingMode": "PAY_PER_REQUEST",
        }
        self._client.call("CreateTable", table)

    def _units(self, name: str, task: str, expected: int = 0, **told: object) -> "_Units":
        expected = expected or len(self._events)
        with _counted(self._meter, expected) as units:
            order = json.dumps({"endpoint": self._endpoint, "table": name, "task": task, **told})
            command = ["node", "drive.js"]
            done = subprocess.run(command, cwd=CASTORE, input=order, capture_output=True, text=True, check=True)
        if int(done.stdout) != expected:
            raise AssertionError(f"castore: {task} of {done.stdout.strip()} events, not of {expected}")
        return units


class Annals:
    """Annals' own services on its own adapters, each way of writing in an organization of its own."""

    def __init__(self, endpoint: str, meter: Meter, events: Sequence[dict[str, Any]]) -> None:
        self._meter = meter
        dynamodb = client(DYNAMODB, endpoint, REGION)
        create_tables(dynamodb, "log", "views")
        self._log, self._views = DynamoLog(dynamodb, "log", "views"), DynamoViews(dynamodb, "views")
        self._present = LogReader(self._log, self._views)
        ticks = count()
        self._appender = Appender(self._log, lambda: AT_MS + next(ticks) * 250)
        self._organizations = Organizations(self._log, self._appender)
        self._retention = Retention(self._log, lambda: AT_MS)
        self._texts = job_texts(events)
        self.projecting = 0.0
        """Read units of the last projection."""

    def appended(self, organization: str, batch: int) -> float:
        """Write units of requests of `batch` events."""
        server, given = self._created(organization), self._texts if batch > 1 else self._texts[:FEWER]
        with _counted(self._meter, len(given)) as units:
            for texts in _parts(given, batch):
                self._appender.append(Append(server, texts, request_id()))
        return units.written

    def ingested(self, organization: str, batch: int) -> float:
        """Write units of messages of `batch` events, ten of which come at once."""
        self._created(organization)
        messages = [
            Message(str(number), organization, number, 0, texts)
            for number, texts in enumerate(_parts(self._texts, batch), start=1)
        ]
        with _counted(self._meter, len(self._texts)) as units:
            for some in _parts(messages, RECEIVED):
                if failed := ingest(some, self._organizations, self._appender, self._log):
                    raise AssertionError(f"not ingested: {failed[0].reason}")
        return units.written

    def projected(self, organization: str) -> float:
        """Write units of the views."""
        server, consumer = self._organizations.server(organization), projector(self._views)
        with _counted(self._meter, len(self._texts)) as units:
            while run(consumer, server, self._log, self._views, RUN_COMMITS):
                pass
        self.projecting = units.read
        return units.written

    def fed(self, organization: str, jobs: Sequence[str]) -> float:
        """Read units of the feed of each job, up to now."""
        with _counted(self._meter, len(jobs) * JOB_EVENTS) as units:
            found = [self._following(organization, Selection(keys=(f"/job/{job}",))) for job in jobs]
        if sum(found) != len(jobs) * JOB_EVENTS:
            raise AssertionError(f"{sum(found)} events of {len(jobs)} jobs")
        return units.read

    def states(self, organization: str, jobs: Sequence[str]) -> float:
        """Read units of the snapshot of each job."""
        server = self._organizations.server(organization)
        with _counted(self._meter, len(jobs) * JOB_EVENTS) as units:
            found = [one(self._present, server, ObjectRef("job", f"/{job}")).states for job in jobs]
        if not all(found):
            raise AssertionError("a job has no state")
        return units.read

    def followed(self, organization: str) -> float:
        """Read units of the feed of everything."""
        with _counted(self._meter, len(self._texts)) as units:
            found = self._following(organization, Selection())
        if found != len(self._texts):
            raise AssertionError(f"followed {found} of {len(self._texts)} events")
        return units.read

    def idle(self, organization: str) -> float:
        """Read units of a long poll in which nothing happens."""
        server, elapsed = self._organizations.server(organization), [0.0]
        looking = Looking(
            lambda pause_s: elapsed.__setitem__(0, elapsed[0] + pause_s), self._log.goes_on, lambda: elapsed[0]
        )
        with _counted(self._meter, 1_000) as units:
            query = FeedQuery(server, Selection(), self._log.head(server).last, timeout_s=POLL_S)
            follow(query, self._present, looking, self._retention, monotonic=lambda: elapsed[0])
        return units.read

    def _created(self, organization: str) -> int:
        server = self._organizations.create(organization)[0].server
        self._log.head(server)
        return server

    def _following(self, organization: str, selection: Selection) -> int:
        server = self._organizations.server(organization)
        found = follow(FeedQuery(server, selection), self._present, Looking(), self._retention)
        return len(found.wires) if isinstance(found, NonEmpty) else 0


class _Units:
    """What was counted in a block, per 1,000 events."""

    written = 0.0
    read = 0.0


@contextmanager
def _counted(meter: Meter, events: int) -> Iterator[_Units]:
    units = _Units()
    meter.reset()
    yield units
    units.written, units.read = meter.written * 1_000 / events, meter.read * 1_000 / events


def _numbered(events: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events as castore takes them: each the next version of its job."""
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


def _parts(whole: Sequence[Any], size: int) -> Iterator[Any]:
    return (tuple(whole[start : start + size]) for start in range(0, len(whole), size))
