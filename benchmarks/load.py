"""A load generator: the same loops for every peer, in a process of its own. Standard library only.

Each task prints one line of JSON; a wrong answer ends the process with an error.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Protocol

WARM_UP_S = 0.3
PAUSE_S = 0.003
"""Before an append that a reader waits for: time enough for it to be waiting again."""
LONGEST_WAIT_S = 10.0


class Peer(Protocol):
    """An event log as its client sees it; each call here opens a connection of its own."""

    def appender(self, events: int) -> Callable[[], None]:
        """What appends `events` events in one go, and returns when they are durable."""

    def pages(self) -> Iterator[int]:
        """How many events each page of the whole log has."""

    def follower(self) -> Callable[[], int]:
        """What waits for the next events after the present end, and returns how many came."""

    def verified(self) -> int:
        """How many events the log has, after a look at each."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a task found: units per second, and how long one took."""

    per_s: float
    p50_ms: float
    p99_ms: float
    events: int
    """How many events were appended, warming up included; for readers: read."""


def main(peer: Callable[[str, str], Peer]) -> None:
    """Do the task that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["append", "fill", "read", "wait", "verify"])
    parser.add_argument("address")
    parser.add_argument("--token", default="")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--times", type=int, default=100)
    args = parser.parse_args()
    log = peer(args.address, args.token)
    match args.task:
        case "append":
            found = append(log, args.clients, args.batch, args.seconds)
        case "fill":
            found = fill(log, args.clients, args.batch, args.times)
        case "read":
            found = read(log, args.seconds)
        case "wait":
            found = wait(log, args.times)
        case _:
            found = Load(0, 0, 0, log.verified())
    print(json.dumps(asdict(found)))


def append(peer: Peer, clients: int, batch: int, seconds: float) -> Load:
    """Append from `clients` threads for `seconds`, after a short while to warm up."""
    appenders = [peer.appender(batch) for _ in range(clients)]
    begin_ns = time.perf_counter_ns() + int(WARM_UP_S * 1e9)
    end_ns = begin_ns + int(seconds * 1e9)
    latencies: list[list[int]] = [[] for _ in appenders]
    calls = [0] * clients

    def repeat(number: int) -> None:
        once, mine = appenders[number], latencies[number]
        start = time.perf_counter_ns()
        while start < end_ns:
            once()
            stop = time.perf_counter_ns()
            calls[number] += 1
            if begin_ns <= start and stop <= end_ns:
                mine.append(stop - start)
            start = stop

    _together(repeat, clients)
    return _load(list(chain.from_iterable(latencies)), seconds, sum(calls) * batch)


def fill(peer: Peer, clients: int, batch: int, times: int) -> Load:
    """Append from `clients` threads, `times` each."""
    appenders = [peer.appender(batch) for _ in range(clients)]

    def repeat(number: int) -> None:
        for _ in range(times):
            appenders[number]()

    _together(repeat, clients)
    return Load(0, 0, 0, clients * times * batch)


def read(peer: Peer, seconds: float) -> Load:
    """Read the whole log, again and again for `seconds`; the units are events."""
    latencies, events = [], 0
    begin = start = time.perf_counter_ns()
    while start - begin < seconds * 1e9:
        events += sum(peer.pages())
        stop = time.perf_counter_ns()
        latencies.append(stop - start)
        start = stop
    taken_s = (start - begin) / 1e9
    p50, p99 = _quantiles_ms(latencies)
    return Load(events / taken_s, p50, p99, events // len(latencies))


def wait(peer: Peer, times: int) -> Load:
    """Append one event while a reader waits, `times` times: from before the append until the reader has it."""
    once, following = peer.appender(1), peer.follower()
    arrivals: list[int] = []
    arrived = threading.Semaphore(0)

    def follow() -> None:
        for _ in range(times):
            if following() != 1:
                raise AssertionError("the reader waited for one event and got several")
            arrivals.append(time.perf_counter_ns())
            arrived.release()

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    departures = []
    for _ in range(times):
        time.sleep(PAUSE_S)
        departures.append(time.perf_counter_ns())
        once()
        if not arrived.acquire(timeout=LONGEST_WAIT_S):
            raise AssertionError("the event did not reach the reader")
    latencies = [arrival - departure for arrival, departure in zip(arrivals, departures, strict=True)]
    return _load(latencies, sum(latencies) / 1e9, times)


def _together(work: Callable[[int], None], clients: int) -> None:
    """Run `work` in a thread for each client; the first failure is raised here."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _load(latencies: list[int], seconds: float, events: int) -> Load:
    p50, p99 = _quantiles_ms(latencies)
    return Load(len(latencies) / seconds, p50, p99, events)


def _quantiles_ms(latencies: list[int]) -> tuple[float, float]:
    ordered = sorted(latencies)
    if not ordered:
        raise AssertionError("not one answer within the time to measure")
    return ordered[len(ordered) // 2] / 1e6, ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] / 1e6
