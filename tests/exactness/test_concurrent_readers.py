"""Readers among threads that write, project and rebuild: each snapshot is the fold of the log up to its EventId."""

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
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectSelection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.domain.views.record import PROJECT
from chalicelib.domain.vocabularies import scheduler
from chalicelib.services.consumers.consumer import checkpoint_of, run
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.feeds.feed import FeedQuery, follow
from chalicelib.services.feeds.notifiers import Bell
from chalicelib.services.log.appender import Appender
from chalicelib.services.objects.snapshots import snapshot, state_at
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.exactness.plain import Plain, is_selected

SECONDS = 5.0
SERVER = 1
SEED = 20_161_104
READERS = 3
MOST_COMMITS = 1_500
ORDERS = [f"/{folder}/chain,{n}" for folder in "abc" for n in range(4)]
EVENTS = [
    {"TYPE": "OrderAdded", "nodeId": "100"},
    {"TYPE": "OrderStarted"},
    {"TYPE": "OrderStepStarted", "nodeId": "100", "taskId": "7"},
    {"TYPE": "OrderFinished", "nodeId": "200"},
    {"TYPE": "OrderSuspended"},
    {"TYPE": "OrderRemoved"},
]


class World:
    """The log, its views, and all who use them until the time is up."""

    def __init__(self, log: SqliteLog, views: SqliteViews) -> None:
        self.log = log
        self.views = views
        self.present = LogReader(log, views)
        self.ends = threading.Event()
        self.seen: Counter[str] = Counter()

    def going_on(self) -> Iterator[int]:
        for n in count():
            if self.ends.is_set():
                return
            yield n

    def write(self) -> None:
        """Commits of one to five events, for a clock that goes fast and then stands still."""
        chance = random.Random(SEED)
        now_ms = 1_700_000_000_000
        appender = Appender(self.log, lambda: now_ms)
        for n in self.going_on():
            if n == MOST_COMMITS:
                return
            now_ms += chance.choice([0, 0, 0, 5_000, 70_000])
            events = [_event(chance) for _ in range(chance.randint(1, 5))]
            appender.append(Append(SERVER, encoded(events), f"request {n}"))

    def project(self, seed: int) -> None:
        chance = random.Random(seed)
        for _ in self.going_on():
            if run(projector(self.views), SERVER, self.log, self.views, chance.randint(1, 20)):
                self.seen["projected"] += 1

    def rebuild(self) -> None:
        for _ in self.going_on():
            rebuild(SERVER, self.log, self.views, lambda _done, _all: None)
            self.seen["rebuilt"] += 1

    def read(self, seed: int) -> None:
        chance = random.Random(seed)
        reads = [self.read_snapshot, self.read_past, self.read_history]
        for _ in self.going_on():
            chance.choice(reads)(chance)

    def read_snapshot(self, chance: random.Random) -> None:
        collection, path = chance.choice([("order", "/"), ("order", "/a/"), ("jobChain", "/"), ("order", ORDERS[0])])
        checkpoint = checkpoint_of(PROJECT, SERVER, self.views).head.session
        found = snapshot(self.present, SERVER, collection, PathQuery.of(path))
        log = self.so_far()
        assert found.states == log.snapshot(collection, PathQuery.of(path), found.event_id)
        self.seen["snapshots"] += 1
        self.seen["snapshots behind which the views lagged"] += 0 < checkpoint < log.at(found.event_id).session

    def read_past(self, chance: random.Random) -> None:
        log, ref = self.so_far(), ObjectRef("order", chance.choice(ORDERS))
        event_id = chance.randint(0, 3) + (chance.choice(log.events).event_id if log.events else 0)
        event_id = min(event_id, log.last)
        assert state_at(self.present, SERVER, ref, event_id) == log.state(ref, event_id)
        self.seen["pasts"] += 1

    def read_history(self, chance: random.Random) -> None:
        """One object's events, forward from somewhere, or the newest."""
        log = self.so_far()
        after = chance.choice(log.events).event_id if log.events else 0
        selection = ObjectSelection(collection="order", query=PathQuery.of(chance.choice(ORDERS)))
        limit = chance.choice([None, -5])
        query = FeedQuery(SERVER, selection, after, limit)
        answer = follow(query, self.present, Bell(), Retention(self.log, lambda: 0))
        if isinstance(answer, NonEmpty):
            now = self.so_far().between(after, answer.event_id)
            expected = [event.wire for event in now if is_selected(event, selection)]
            assert answer.wires == (expected if limit is None else expected[: limit - 1 : -1])
            self.seen["histories"] += 1

    def so_far(self) -> Plain:
        """All that is written."""
        found = Plain(SERVER)
        for commit in self.log.read(SERVER, 0):
            found.add(commit)
        return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("chalicelib.services.reading.log_reader.SCAN_THRESHOLD", 8)
    monkeypatch.setattr("chalicelib.domain.views.block.BLOCK_BITS", 3)
    monkeypatch.setattr("chalicelib.domain.views.object_view.SESSIONS_AT_HAND", 5)
    log, views = Database(tmp_path / "log.sqlite"), Database(tmp_path / "views.sqlite", SCHEMA, durable=False)
    yield World(SqliteLog(log), SqliteViews(views))
    log.close()
    views.close()


def test_every_reader_sees_the_log_as_it_was_at_its_event_id(world: World) -> None:
    readers: list[Callable[[], None]] = [lambda seed=n: world.read(seed) for n in range(READERS)]  # type: ignore[misc]
    everybody = [world.write, lambda: world.project(1), lambda: world.project(2), world.rebuild, *readers]
    with ThreadPoolExecutor(len(everybody)) as threads:
        timer = threading.Timer(SECONDS, world.ends.set)
        timer.start()
        running = [threads.submit(_until_failure, world.ends, one) for one in everybody]
        for one in running:
            one.result()
        timer.cancel()
    assert [what for what in _EXPECTED if not world.seen[what]] == []


_EXPECTED = ["projected", "rebuilt", "snapshots", "snapshots behind which the views lagged", "pasts", "histories"]


def _until_failure(ends: threading.Event, act: Callable[[], None]) -> None:
    """One failure ends it for all."""
    try:
        act()
    except BaseException:
        ends.set()
        raise


def _event(chance: random.Random) -> NewEvent:
    kind = chance.random()
    if kind < 0.7:
        return scheduler.new_event({**chance.choice(EVENTS), "key": chance.choice(ORDERS)})
    if kind < 0.8:
        file = f"{chance.choice(['Order', 'JobChain'])}:{chance.choice(ORDERS)}"
        return scheduler.new_event({"TYPE": "FileBasedAdded", "key": file})
    if kind < 0.9:
        return NewEvent(type=("scheduler", "OrderEvent", "OrderStepStarted"), key=chance.choice(ORDERS))
    return NewEvent(type=("other", str(chance.randint(1, 5))), key=chance.choice([None, *ORDERS]))
