"""Readers concurrent with threads that write, project and rebuild. Each result is exact as of its EventId."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectSelection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.domain.views.record import PROJECTOR
from chalicelib.domain.vocabularies import SCHEDULER_VOCABULARY
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.feeds.notifiers import CommitNotifier
from chalicelib.services.log.appender import Appender
from chalicelib.services.objects.snapshots import snapshot, state_at
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.exactness.model import LogModel, is_selected

DURATION_S = 5.0
SERVER = 1
SEED = 20_161_104
READERS = 3
MAX_COMMITS = 1_500
ORDERS = [f"/{folder}/chain,{n}" for folder in "abc" for n in range(4)]
EVENTS = [
    {"TYPE": "OrderAdded", "nodeId": "100"},
    {"TYPE": "OrderStarted"},
    {"TYPE": "OrderStepStarted", "nodeId": "100", "taskId": "7"},
    {"TYPE": "OrderFinished", "nodeId": "200"},
    {"TYPE": "OrderSuspended"},
    {"TYPE": "OrderRemoved"},
]


class Installation:
    """A log, its views, and the tasks that use them until they are stopped."""

    def __init__(self, log: SqliteLog, views: SqliteViews) -> None:
        self.log = log
        self.views = views
        self.reader = LogReader(log, views)
        self.stopped = threading.Event()
        self.counts: Counter[str] = Counter()

    def until_stopped(self) -> Iterator[int]:
        for n in count():
            if self.stopped.is_set():
                return
            yield n

    def write(self) -> None:
        """Write commits of one to five events with a clock that jumps and stands still."""
        rng = random.Random(SEED)
        now_ms = 1_700_000_000_000
        appender = Appender(self.log, lambda: now_ms)
        for n in self.until_stopped():
            if n == MAX_COMMITS:
                return
            now_ms += rng.choice([0, 0, 0, 5_000, 70_000])
            events = [_event(rng) for _ in range(rng.randint(1, 5))]
            appender.append(Append(SERVER, encode_within_limits(events), f"request {n}"))

    def project(self, seed: int) -> None:
        rng = random.Random(seed)
        for _ in self.until_stopped():
            if run_once(projector(self.views), SERVER, self.log, self.views, rng.randint(1, 20)):
                self.counts["projected"] += 1

    def rebuild(self) -> None:
        for _ in self.until_stopped():
            rebuild(SERVER, self.log, self.views, lambda _done, _all: None)
            self.counts["rebuilt"] += 1

    def read(self, seed: int) -> None:
        rng = random.Random(seed)
        reads = [self.read_snapshot, self.read_past, self.read_history]
        for _ in self.until_stopped():
            rng.choice(reads)(rng)

    def read_snapshot(self, rng: random.Random) -> None:
        collection, path = rng.choice([("order", "/"), ("order", "/a/"), ("jobChain", "/"), ("order", ORDERS[0])])
        checkpoint = load_checkpoint(PROJECTOR, SERVER, self.views).head.session
        result = snapshot(self.reader, SERVER, collection, PathQuery.parse(path))
        log = self.current_model()
        assert result.states == log.snapshot(collection, PathQuery.parse(path), result.event_id)
        self.counts["snapshots"] += 1
        self.counts["snapshots with lagging views"] += 0 < checkpoint < log.position_at(result.event_id).session

    def read_past(self, rng: random.Random) -> None:
        log, ref = self.current_model(), ObjectRef("order", rng.choice(ORDERS))
        event_id = rng.randint(0, 3) + (rng.choice(log.events).event_id if log.events else 0)
        event_id = min(event_id, log.last_event_id)
        assert state_at(self.reader, SERVER, ref, event_id) == log.state(ref, event_id)
        self.counts["past states"] += 1

    def read_history(self, rng: random.Random) -> None:
        """Read one object's events after a random position, or the newest ones."""
        log = self.current_model()
        after = rng.choice(log.events).event_id if log.events else 0
        selection = ObjectSelection(collection="order", query=PathQuery.parse(rng.choice(ORDERS)))
        limit = rng.choice([None, -5])
        query = FeedQuery(SERVER, selection, after, limit)
        seq = long_poll_blocking(query, self.reader, CommitNotifier(), Retention(self.log, lambda: 0))
        if isinstance(seq, NonEmpty):
            events = self.current_model().between(after, seq.event_id)
            expected = [event.wire_text for event in events if is_selected(event, selection)]
            assert seq.texts == (expected if limit is None else expected[: limit - 1 : -1])
            self.counts["histories"] += 1

    def current_model(self) -> LogModel:
        """A model of everything written so far."""
        model = LogModel(SERVER)
        for commit in self.log.read(SERVER, 0):
            model.add(commit)
        return model


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    monkeypatch.setattr("chalicelib.services.reading.log_reader.SCAN_THRESHOLD", 8)
    monkeypatch.setattr("chalicelib.services.reading.log_reader.MAX_SEARCH_DISTANCE", 8)
    monkeypatch.setattr("chalicelib.domain.views.block.BLOCK_BITS", 3)
    monkeypatch.setattr("chalicelib.domain.views.object_view.MAX_RECENT_SESSIONS", 5)
    log, views = Database(tmp_path / "log.sqlite"), Database(tmp_path / "views.sqlite", SCHEMA, durable=False)
    yield Installation(SqliteLog(log), SqliteViews(views))
    log.close()
    views.close()


def test_concurrent_readers_see_log_as_of_their_event_id(installation: Installation) -> None:
    readers: list[Callable[[], None]] = [lambda seed=n: installation.read(seed) for n in range(READERS)]  # type: ignore[misc]
    tasks = [
        installation.write,
        lambda: installation.project(1),
        lambda: installation.project(2),
        installation.rebuild,
        *readers,
    ]
    with ThreadPoolExecutor(len(tasks)) as threads:
        timer = threading.Timer(DURATION_S, installation.stopped.set)
        timer.start()
        futures = [threads.submit(_run_until_failure, installation.stopped, task) for task in tasks]
        for future in futures:
            future.result()
        timer.cancel()
    assert [path for path in _EXPECTED if not installation.counts[path]] == []


_EXPECTED = ["projected", "rebuilt", "snapshots", "snapshots with lagging views", "past states", "histories"]


def _run_until_failure(stopped: threading.Event, task: Callable[[], None]) -> None:
    """Stop all tasks if this one fails."""
    try:
        task()
    except BaseException:
        stopped.set()
        raise


def _event(rng: random.Random) -> NewEvent:
    kind = rng.random()
    if kind < 0.7:
        return SCHEDULER_VOCABULARY.new_event({**rng.choice(EVENTS), "key": rng.choice(ORDERS)})
    if kind < 0.8:
        file = f"{rng.choice(['Order', 'JobChain'])}:{rng.choice(ORDERS)}"
        return SCHEDULER_VOCABULARY.new_event({"TYPE": "FileBasedAdded", "key": file})
    if kind < 0.9:
        return NewEvent(type=("scheduler", "OrderEvent", "OrderStepStarted"), key=rng.choice(ORDERS))
    return NewEvent(type=("other", str(rng.randint(1, 5))), key=rng.choice([None, *ORDERS]))
