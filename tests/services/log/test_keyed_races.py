"""A key is written once: with several processes, lost responses, wrong clocks, restarts, projections and rebuilds."""

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import Busy, Unavailable
from chalicelib.domain.log.append import RECEIPT_TTL_S
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.log import receipts
from chalicelib.services.log.appender import APPEND_TIMEOUT_S, Appender
from chalicelib.services.log.receipts import ProjectedReceipts
from chalicelib.services.ports import Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.tail_cache import TailCache
from tests.builders import uuid7
from tests.services.fakes import World, append

SERVER = 1
REMEMBERED_KEYS = 3
PROCESSES = 3
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


class FlakyLog(SqliteLog):
    """Calls `before_put` before the next write. Does not answer the next `lost` writes, which are stored or not."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.before_put: Callable[[], object] | None = None
        self.lost: list[bool] = []
        """Whether each of the next writes without an answer is stored."""

    def append(self, commits: Sequence[Commit]) -> None:
        if self.before_put is not None:
            other, self.before_put = self.before_put, None
            other()
        is_stored = self.lost.pop(0) if self.lost else None
        if is_stored is not False:
            super().append(commits)
        if is_stored is not None:
            raise Unavailable("no answer")


class Process:
    """A writer with its own clock and memory."""

    def __init__(self, database: Database, views: Views, world: World) -> None:
        self.log = FlakyLog(database)
        self.skew_ms = 0
        self._views, self._world = views, world
        self.restart()

    def restart(self) -> None:
        reader = LogReader(self.log, self._views, tails=TailCache(self.log, self._views, clock=self.clock))
        found = ProjectedReceipts(reader, clock=self.clock)
        world = self._world
        self.appender = Appender(self.log, self.clock, world.pause, world.monotonic, reader, receipts=found)

    def clock(self) -> int:
        return self._world.now_ms + self.skew_ms


class KeyedWriters(RuleBasedStateMachine):
    """Clients repeat requests at any process. The first commit with a key is the outcome of all requests with it."""

    def __init__(self, database: Database, views: Views, server: int) -> None:
        super().__init__()
        self.server, self.views = server, views
        self.world = World()
        self.processes = [Process(database, views, self.world) for _ in range(PROCESSES)]
        self.log = SqliteLog(database)
        self.keys: list[str] = []
        self.requests = 0

    @rule(
        process=st.integers(0, PROCESSES - 1),
        lead_ms=st.sampled_from([0, 0, 0, 1, -1, 500, -500, MINUTE_MS, -5 * MINUTE_MS, 2 * HOUR_MS, 30 * HOUR_MS]),
        is_opaque=st.booleans(),
        lost=st.lists(st.booleans(), max_size=2),
    )
    def send_new_key(self, process: int, lead_ms: int, is_opaque: bool, lost: list[bool]) -> None:
        """The clock of the client is ahead by `lead_ms`."""
        self.keys.append(f"k{len(self.keys)}" if is_opaque else uuid7(self.world.now_ms + lead_ms))
        self._send(self.processes[process], self.keys[-1], lost)

    @rule(process=st.integers(0, PROCESSES - 1), number=st.integers(0, 30), lost=st.lists(st.booleans(), max_size=2))
    def repeat_key(self, process: int, number: int, lost: list[bool]) -> None:
        if self.keys:
            self._send(self.processes[process], self.keys[-1 - number % len(self.keys)], lost)

    @rule(process=st.integers(0, PROCESSES - 1), lead_ms=st.sampled_from([0, MINUTE_MS, 2 * HOUR_MS]))
    def send_key_and_be_overtaken(self, process: int, lead_ms: int) -> None:
        """Another process writes the same key, and others, just before the write."""
        key = uuid7(self.world.now_ms + lead_ms)
        self.keys.append(key)
        sender, other = self.processes[process], self.processes[process - 1]

        def overtake() -> None:
            for _ in range(REMEMBERED_KEYS):
                self._send(other, uuid7(self.world.now_ms), [])
            self._send(other, key, [])

        sender.log.before_put = overtake
        self._send(sender, key, [])
        sender.log.before_put = None

    @rule(process=st.integers(0, PROCESSES - 1), lost=st.booleans())
    def give_up_without_answer(self, process: int, lost: bool) -> None:
        """The write is stored or not, and the process never learns it."""
        self.keys.append(uuid7(self.world.now_ms))
        sender = self.processes[process]
        sender.log.before_put = lambda: setattr(self.world, "elapsed_s", self.world.elapsed_s + APPEND_TIMEOUT_S + 1)
        self._send(sender, self.keys[-1], [lost])

    @rule(process=st.integers(0, PROCESSES - 1), skew_ms=st.sampled_from([0, 700, -700, MINUTE_MS, -MINUTE_MS]))
    def restart(self, process: int, skew_ms: int) -> None:
        self.processes[process].skew_ms = skew_ms
        self.processes[process].restart()

    @rule(step_ms=st.sampled_from([1, 1_000, MINUTE_MS, HOUR_MS, 5 * HOUR_MS]))
    def wait(self, step_ms: int) -> None:
        self.world.now_ms += step_ms

    @rule(limit=st.integers(1, 9))
    def project(self, limit: int) -> None:
        run_once(projector(self.views, clock=self.world.clock), self.server, self.log, self.views, limit)

    @rule()
    def rebuild(self) -> None:
        rebuild(self.server, self.log, self.views, lambda *_: None, clock=self.world.clock)

    @rule()
    def start_views_over(self) -> None:
        reset_views(self.server, self.views, self.world.clock)

    def _send(self, process: Process, key: str, lost: list[bool]) -> None:
        self.requests += 1
        process.log.lost = list(lost)
        request = append(server=self.server, request_id=f"r{self.requests}", idempotency_key=key)
        try:
            outcome = process.appender.append(request)
        except (Unavailable, Busy):
            process.log.lost = []
        else:
            assert isinstance(outcome, Appended)
            assert outcome.commit.idempotency_key == key
        self._check()

    def _check(self) -> None:
        """No two commits within 24 hours have the same key."""
        written_us: dict[str, int] = {}
        for commit in self.log.read(self.server, 0):
            key = commit.idempotency_key
            # A clock may be ahead by a minute, and EventIds only increase.
            since_us = commit.at_us - written_us.get(key, -(10**18))
            assert since_us > (RECEIPT_TTL_S * 1000 - 3 * MINUTE_MS) * 1000, f"{key} is written twice"
            written_us[key] = commit.at_us


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "MAX_REMEMBERED_KEYS", REMEMBERED_KEYS)


@pytest.mark.usefixtures("small_memory")
def test_key_is_written_once_whatever_happens(database: Database, sqlite_views: SqliteViews) -> None:
    servers = count(1)

    class Machine(KeyedWriters):
        def __init__(self) -> None:
            super().__init__(database, sqlite_views, next(servers))

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.usefixtures("small_memory")
def test_key_sent_by_threads_of_three_processes_is_written_once(database: Database, sqlite_views: SqliteViews) -> None:
    """Each of 40 keys is sent four times, by clients whose clocks are wrong, while the views are built."""
    world, rng = World(), random.Random(1)
    processes = [Process(database, sqlite_views, world) for _ in range(PROCESSES)]
    keys = [uuid7(world.now_ms + rng.choice([0, 3, -3, 900, -900])) for _ in range(40)]
    requests = [(key, rng.randrange(PROCESSES), f"{number}-{key}") for number in range(4) for key in keys]
    locks = [threading.Lock() for _ in processes]
    done = threading.Event()

    def send(request: tuple[str, int, str]) -> tuple[str, int]:
        key, number, request_id = request
        with locks[number]:  # A process writes a log in one thread at a time.
            outcome = processes[number].appender.append(append(request_id=request_id, idempotency_key=key))
        return key, outcome.commit.session

    def build() -> None:
        while not done.wait(0.005):
            run_once(projector(sqlite_views), SERVER, SqliteLog(database), sqlite_views, 7)

    with ThreadPoolExecutor(PROCESSES + 1) as pool:
        building = pool.submit(build)
        try:
            outcomes = set(pool.map(send, requests))
        finally:
            done.set()
        building.result()
    assert len(outcomes) == len(keys)
    assert sorted(commit.idempotency_key for commit in SqliteLog(database).read(SERVER, 0)) == sorted(keys)
