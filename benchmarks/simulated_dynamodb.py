"""A log on a DynamoDB that exists in virtual time only: its latencies, its limits per partition key, its throttling."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import TypeVar

from benchmarks.virtual_time import VirtualTime
from chalicelib.adapters.aws.client import ATTEMPTS, THROTTLED_PAUSE_S
from chalicelib.adapters.dynamodb.capacity import item_size, read_units, write_units
from chalicelib.adapters.dynamodb.items import item_from_commit
from chalicelib.domain.errors import SessionTaken, Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit

T = TypeVar("T")

WRITE_LIMIT, READ_LIMIT = 1_000.0, 3_000.0
"""Units a second of one partition key: DynamoDB's developer guide. What it may lend for bursts is left out."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a call takes, as who makes it sees: lognormal, and now and then much longer."""

    median_s: float
    p99_s: float
    tail: float = 0.001
    """How many of all calls take `tail_times` as long: a connection made anew, a replica that is replaced."""
    tail_times: float = 20.0

    def drawn(self, chance: random.Random) -> float:
        """That of one call."""
        sigma = log(self.p99_s / self.median_s) / 2.326
        times = self.tail_times if chance.random() < self.tail else 1.0
        return self.median_s * exp(chance.gauss(0.0, sigma)) * times


PUT = Latency(0.005, 0.015)
QUERY = Latency(0.004, 0.012)
"""AWS promises single-digit milliseconds on average and says that p99 may be several times that; the connection from a
function, and our client's own part of a millisecond, are in it."""


class Allowance:
    """So many units a second; what was not used for a second is lost."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._left = per_s
        self._at_s = 0.0

    def take(self, units: float, now_s: float) -> bool:
        """Whether there are so many; then they are taken."""
        self._left = min(self._per_s, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if units > self._left:
            return False
        self._left -= units
        return True


@dataclass
class Partition:
    """The commits of one log, what was consumed, and what may be."""

    commits: list[Commit] = field(default_factory=list)
    writes: Allowance = field(default_factory=lambda: Allowance(WRITE_LIMIT))
    reads: Allowance = field(default_factory=lambda: Allowance(READ_LIMIT))
    write_units: float = 0.0
    read_units: float = 0.0
    throttled: int = 0

    def write(self, units: float, now_s: float) -> bool:
        """Whether that may be written now."""
        granted = self.writes.take(units, now_s)
        self.write_units += units if granted else 0
        self.throttled += not granted
        return granted

    def read(self, units: float, now_s: float) -> bool:
        """Whether that may be read now."""
        granted = self.reads.take(units, now_s)
        self.read_units += units if granted else 0
        self.throttled += not granted
        return granted


class SimulatedLog:
    """The port `Log`; each call reaches DynamoDB after half of its latency, and is answered after the other half."""

    def __init__(self, time: VirtualTime, chance: random.Random) -> None:
        self._time = time
        self._chance = chance
        self._partitions: dict[int, Partition] = {}
        self._sizes: dict[str, int] = {}

    def partition(self, server: int) -> Partition:
        """The log of this server."""
        return self._partitions.setdefault(server, Partition())

    def head(self, server: int) -> Head:
        """A query of one item, body and all."""
        last = self._queried(server, lambda commits: commits[-1:])
        return last[0].head if last else Head(server)

    def start(self, server: int) -> Head:
        """Nothing is ever forgotten."""
        return Head(server)

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        """One conditional put; a refused one consumes units, too."""
        del receipts, now_s
        (commit,) = commits
        partition = self.partition(commit.server)

        def put() -> Commit | None:
            held = partition.commits[commit.session - 1 : commit.session]
            units = write_units(max(map(self._size, (commit, *held))))
            if not partition.write(units, self._time.now_s):
                return None
            if not held:
                partition.commits.append(commit)
            return held[0] if held else commit

        held = self._called(PUT, put)
        if held.request_id != commit.request_id:
            raise SessionTaken(commit.server, commit.session)

    def commit(self, server: int, session: int) -> Commit | None:
        """A query of one item."""
        return next(iter(self._queried(server, lambda commits: commits[session - 1 : session])), None)

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        """Queried together."""
        return iter(self._queried(server, lambda commits: [commits[session - 1] for session in sessions]))

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        """A query."""
        return iter(self._queried(server, lambda commits: commits[after:][:most]))

    def read_back(self, server: int, before: int, most: int | None = None) -> Iterator[Commit]:
        """A query."""
        return iter(self._queried(server, lambda commits: commits[: before - 1][::-1][:most]))

    def receipt(self, server: int, key: str, now_s: int) -> Receipt | None:
        """Nobody here gives idempotency keys."""
        del server, key, now_s
        return None

    def _queried(self, server: int, select: Callable[[list[Commit]], list[Commit]]) -> list[Commit]:
        partition = self.partition(server)

        def query() -> list[Commit] | None:
            found = select(partition.commits)
            units = read_units(sum(map(self._size, found)), consistent=True)
            return found if partition.read(units, self._time.now_s) else None

        return self._called(QUERY, query)

    def _called(self, latency: Latency, act: Callable[[], T | None]) -> T:
        """What `act` answers, repeated like our client does while it is throttled and answers nothing."""
        for attempt in range(ATTEMPTS):
            if attempt:
                self._time.sleep(self._chance.random() * THROTTLED_PAUSE_S * 2 ** (attempt - 1))
            half_s = latency.drawn(self._chance) / 2
            self._time.sleep(half_s)
            answer = act()
            self._time.sleep(half_s)
            if answer is not None:
                return answer
        raise Unavailable("throttled")

    def _size(self, commit: Commit) -> int:
        """Of its item; commits with the same events differ by some digits only, so it is counted once for them."""
        size = self._sizes.get(commit.body)
        if size is None:
            size = self._sizes[commit.body] = item_size(item_from_commit(commit))
        return size
