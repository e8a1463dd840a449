"""A simulated DynamoDB log in virtual time: latencies, limits per partition key, throttling."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import TypeVar

from benchmarks.simulation.virtual_time import VirtualTime
from chalicelib.adapters.aws.client import MAX_ATTEMPTS, THROTTLED_BACKOFF
from chalicelib.adapters.dynamodb.capacity import item_size, read_units, write_units
from chalicelib.adapters.dynamodb.items import item_from_commits
from chalicelib.domain.errors import SessionTaken, Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit

T = TypeVar("T")

WRITE_LIMIT, READ_LIMIT = 1_000.0, 3_000.0
"""Units per second of one partition key, from the DynamoDB developer guide. Burst capacity is ignored."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of a call as its caller sees it: lognormal with a heavy tail."""

    median_s: float
    p99_s: float
    tail: float = 0.001
    """Fraction of calls that take `tail_times` as long: a new connection, a replaced replica."""
    tail_times: float = 20.0

    def sample(self, rng: random.Random) -> float:
        sigma = log(self.p99_s / self.median_s) / 2.326
        times = self.tail_times if rng.random() < self.tail else 1.0
        return self.median_s * exp(rng.gauss(0.0, sigma)) * times


PUT = Latency(0.005, 0.015)
QUERY = Latency(0.004, 0.012)
"""AWS documents single-digit milliseconds on average and a p99 of several times that. Includes the connection from the
function and our client."""


class TokenBucket:
    """Rate limit in units per second, with a capacity of one second."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._tokens = per_s
        self._updated_at_s = 0.0

    def take(self, units: float, now_s: float) -> bool:
        """Take the units if they are available."""
        self._tokens = min(self._per_s, self._tokens + (now_s - self._updated_at_s) * self._per_s)
        self._updated_at_s = now_s
        if units > self._tokens:
            return False
        self._tokens -= units
        return True


@dataclass
class Partition:
    """The commits of one log, its rate limits, and the units consumed."""

    commits: list[Commit] = field(default_factory=list)
    item_bytes: list[int] = field(default_factory=list)
    """Size of each item. An item holds a run of one or more commits."""
    item_of: list[int] = field(default_factory=list)
    """Index of the item that holds each commit."""
    rejected_puts: int = 0
    writes: TokenBucket = field(default_factory=lambda: TokenBucket(WRITE_LIMIT))
    reads: TokenBucket = field(default_factory=lambda: TokenBucket(READ_LIMIT))
    write_units: float = 0.0
    read_units: float = 0.0
    throttled: int = 0

    def add(self, run: Sequence[Commit], size: int) -> None:
        """Store an item."""
        self.commits += run
        self.item_of += [len(self.item_bytes)] * len(run)
        self.item_bytes.append(size)

    def size_of(self, commits: Sequence[Commit]) -> int:
        """Size of all items that hold these commits. DynamoDB reads whole items."""
        return sum(self.item_bytes[item] for item in {self.item_of[commit.session - 1] for commit in commits})

    def write(self, units: float, now_s: float) -> bool:
        """Consume write units. False if throttled."""
        allowed = self.writes.take(units, now_s)
        self.write_units += units if allowed else 0
        self.throttled += not allowed
        return allowed

    def read(self, units: float, now_s: float) -> bool:
        """Consume read units. False if throttled."""
        allowed = self.reads.take(units, now_s)
        self.read_units += units if allowed else 0
        self.throttled += not allowed
        return allowed


class SimulatedLog:
    """Implements the port `Log`."""

    def __init__(self, time: VirtualTime, rng: random.Random) -> None:
        self._time = time
        self._chance = rng
        self._partitions: dict[int, Partition] = {}
        self._sizes: dict[str, int] = {}

    def partition(self, server: int) -> Partition:
        return self._partitions.setdefault(server, Partition())

    def head(self, server: int) -> Head:
        """Query of one whole item."""
        last = self._query(server, lambda commits: commits[-1:])
        return last[0].head if last else Head(server)

    def start(self, server: int) -> Head:
        """There is no retention."""
        return Head(server)

    def append(self, commits: Sequence[Commit]) -> None:
        """One conditional put of an item with a run of commits. A rejected put consumes units, too."""
        first = commits[0]
        partition, size = self.partition(first.server), self._size(commits)

        def put() -> Commit | None:
            stored = partition.commits[first.session - 1 : first.session]
            if not partition.write(write_units(max(size, partition.size_of(stored))), self._time.now_s):
                return None
            if stored:
                partition.rejected_puts += stored[0].request_id != first.request_id
                return stored[0]
            partition.add(commits, size)
            return first

        stored = self._call(PUT, put)
        if stored.request_id != first.request_id:
            raise SessionTaken(first.server, first.session)

    def commit(self, server: int, session: int) -> Commit | None:
        return next(iter(self._query(server, lambda commits: commits[session - 1 : session])), None)

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        return iter(self._query(server, lambda commits: [commits[session - 1] for session in sessions]))

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        return iter(self._query(server, lambda commits: commits[after:][:most]))

    def read_backwards(self, server: int, before: int, most: int | None = None) -> Iterator[Commit]:
        return iter(self._query(server, lambda commits: commits[: before - 1][::-1][:most]))

    def _query(self, server: int, select: Callable[[list[Commit]], list[Commit]]) -> list[Commit]:
        partition = self.partition(server)

        def query() -> list[Commit] | None:
            commits = select(partition.commits)
            units = read_units(partition.size_of(commits), consistent=True)
            return commits if partition.read(units, self._time.now_s) else None

        return self._call(QUERY, query)

    def _call(self, latency: Latency, operation: Callable[[], T | None]) -> T:
        return call(self._time, self._chance, latency, operation)

    def _size(self, run: Sequence[Commit]) -> int:
        """Item size. Of a single commit, computed once per body: the items then differ by a few digits only."""
        if len(run) > 1:
            return item_size(item_from_commits(run))
        key = f"{run[0].body}{len(run[0].idempotency_key)}"
        size = self._sizes.get(key)
        if size is None:
            size = self._sizes[key] = item_size(item_from_commits(run))
        return size


def call(time: VirtualTime, rng: random.Random, latency: Latency, operation: Callable[[], T | None]) -> T:
    """Result of `operation`, retried like our client while it returns None because of throttling.

    It takes effect after half of its latency and returns after the other half.
    """
    for attempt in range(MAX_ATTEMPTS):
        if attempt:
            time.sleep(THROTTLED_BACKOFF.delay_s(attempt - 1, jitter=rng.random()))
        half_s = latency.sample(rng) / 2
        time.sleep(half_s)
        result = operation()
        time.sleep(half_s)
        if result is not None:
            return result
    raise Unavailable("throttled")
