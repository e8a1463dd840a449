"""The load generator: the same loops for every peer, run in a separate process. Standard library only.

Each task prints one line of JSON. A wrong result ends the process with an error.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, cycle, islice, repeat
from typing import Any, Literal, Protocol

from benchmarks.load import dataset
from benchmarks.load.dataset import PlainEvent
from benchmarks.load.job_events import DATA, KEY, TYPE

WARM_UP_S = 0.3
READER_READY_DELAY_S = 0.003
"""Delay before each append of the `wait` task, so that the reader is waiting again."""
WAIT_TIMEOUT_S = 10.0
MAX_OVERRUN_FACTOR = 8
"""A read pass is aborted after this multiple of the requested seconds."""

APPENDED_EVENT: PlainEvent = (tuple(TYPE), KEY, DATA)

QueryKind = Literal["key", "latest", "type"]
"""All events with a key, the last event of a type, all events of a type."""


class Peer(Protocol):
    """Client of an event log. Each method opens its own connection."""

    def store(self, events: Iterator[PlainEvent]) -> None:
        """Append all events as fast as possible."""

    def appender(self, events: int) -> Callable[[], None]:
        """A function that appends `events` events in one request and waits for the response."""

    def pages(self) -> Iterator[int]:
        """Number of events in each page of the whole log, decoding no more than the client requires."""

    def decoded_events(self) -> Iterator[PlainEvent]:
        """All events of the log, decoded."""

    def querier(self, question: QueryKind) -> Callable[[str], list[PlainEvent]]:
        """A function that runs this query for a key, or for a type written with slashes, and decodes the result."""

    def follower(self) -> Callable[[], int]:
        """A function that waits for the next events after the current end and returns how many arrived."""


@dataclass(frozen=True, slots=True)
class Load:
    """Result of a task: throughput and latency."""

    per_s: float
    p50_ms: float
    p99_ms: float
    events: int
    """Events appended, including the warm-up. For readers: events in the first complete pass."""


def main(peer: Callable[[str, str], Peer], run_clients: "ClientRunner | None" = None) -> None:
    """Run the task given on the command line. Appending clients are threads unless `run_clients` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["store", "append", "read", "decode", "query", "wait", "verify"])
    parser.add_argument("address")
    parser.add_argument("--token", default="")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--events", type=int, default=0, help="size of the stored dataset")
    parser.add_argument("--appended", type=int, default=0, help="number of events appended since")
    parser.add_argument("--kind", choices=["key", "latest", "type"], default="key")
    args = parser.parse_args()
    log, jobs = peer(args.address, args.token), job_count(args.events)
    match args.task:
        case "store":
            log.store(dataset.events(args.events, jobs))
            result = Load(0, 0, 0, args.events)
        case "append":
            result = append(log, run_clients or run_in_threads, args.clients, args.batch, args.seconds)
        case "read":
            result = read(log.pages, args.seconds)
        case "decode":
            result = read(lambda: (1 for _ in log.decoded_events()), args.seconds)
        case "query":
            result = query(log, args.kind, _query_arguments(args.kind, jobs), args.times, args.seconds)
        case "wait":
            result = wait(log, args.times)
        case _:
            expected = chain(dataset.events(args.events, jobs), repeat(APPENDED_EVENT, args.appended))
            result = verify(log, expected, args.events + args.appended)
    print(json.dumps(asdict(result)))


def job_count(events: int) -> int:
    return max(events // dataset.MEAN_EVENTS_PER_JOB, 1)


class Stopwatch:
    """Records the latencies of one client's calls that start after the warm-up and finish before the end."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._start = time.perf_counter_ns()
        self.latencies: list[int] = []
        self.calls = 0

    def has_time(self) -> bool:
        return self._start < self._end_ns

    def record(self) -> None:
        """Record the end of a call; the next one starts now."""
        stop = time.perf_counter_ns()
        self.calls += 1
        if self._begin_ns <= self._start and stop <= self._end_ns:
            self.latencies.append(stop - self._start)
        self._start = stop


ClientRunner = Callable[[Any, int, int], Callable[[Sequence[Stopwatch]], None]]
"""Given peer, number of clients and batch size, a function that runs one client per stopwatch until its time is up."""


def append(peer: Peer, run_clients: ClientRunner, clients: int, batch: int, seconds: float) -> Load:
    """Append from concurrent clients for `seconds` after a short warm-up."""
    run = run_clients(peer, clients, batch)
    begin_ns = time.perf_counter_ns() + int(WARM_UP_S * 1e9)
    watches = [Stopwatch(begin_ns, begin_ns + int(seconds * 1e9)) for _ in range(clients)]
    run(watches)
    latencies = list(chain.from_iterable(watch.latencies for watch in watches))
    return _load(latencies, seconds, sum(watch.calls for watch in watches) * batch)


def run_in_threads(peer: Peer, clients: int, batch: int) -> Callable[[Sequence[Stopwatch]], None]:
    """Run each client in a thread, and raise the first failure."""
    appenders = [peer.appender(batch) for _ in range(clients)]
    failures: list[BaseException] = []

    def run_client(append_events: Callable[[], None], watch: Stopwatch) -> None:
        try:
            while watch.has_time():
                append_events()
                watch.record()
        except BaseException as failure:
            failures.append(failure)

    def run(watches: Sequence[Stopwatch]) -> None:
        threads = [threading.Thread(target=run_client, args=pair) for pair in zip(appenders, watches, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    return run


def read(pages: Callable[[], Iterator[int]], seconds: float) -> Load:
    """Read the whole log repeatedly for `seconds` and report events per second.

    A pass that takes much longer is aborted. Its events count for the throughput, but not for `events`.
    """
    latencies, passes, events = [], [], 0
    begin = start = time.perf_counter_ns()
    while start - begin < seconds * 1e9:
        before = events
        for number in pages():
            events += number
            if time.perf_counter_ns() - begin > MAX_OVERRUN_FACTOR * seconds * 1e9:
                break
        else:
            passes.append(events - before)
        stop = time.perf_counter_ns()
        latencies.append(stop - start)
        start = stop
    p50, p99 = _quantiles_ms(latencies)
    return Load(events / ((start - begin) / 1e9), p50, p99, passes[0] if passes else 0)


def query(peer: Peer, kind: QueryKind, arguments: Sequence[str], times: int, seconds: float) -> Load:
    """Query `times` times, cycling through the arguments, for at most `seconds`."""
    run_query = peer.querier(kind)
    first = _check_result(kind, arguments[0], run_query(arguments[0]))
    latencies: list[int] = []
    begin = time.perf_counter_ns()
    for argument in islice(cycle(arguments), times):
        start = time.perf_counter_ns()
        events = run_query(argument)
        latencies.append(time.perf_counter_ns() - start)
        _check_result(kind, argument, events)
        if time.perf_counter_ns() - begin > seconds * 1e9:
            break
    return _load(latencies, sum(latencies) / 1e9, len(first))


def wait(peer: Peer, times: int) -> Load:
    """Measure `times` times how long an appended event takes to reach a waiting reader."""
    append_event, wait_for_events = peer.appender(1), peer.follower()
    arrivals: list[int] = []
    arrived = threading.Semaphore(0)

    def follow() -> None:
        for _ in range(times):
            if wait_for_events() != 1:
                raise AssertionError("the reader expected one event and received several")
            arrivals.append(time.perf_counter_ns())
            arrived.release()

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    departures = []
    for _ in range(times):
        time.sleep(READER_READY_DELAY_S)
        departures.append(time.perf_counter_ns())
        append_event()
        if not arrived.acquire(timeout=WAIT_TIMEOUT_S):
            raise AssertionError("the event did not reach the reader")
    latencies = [arrival - departure for arrival, departure in zip(arrivals, departures, strict=True)]
    return _load(latencies, sum(latencies) / 1e9, times)


def verify(peer: Peer, expected: Iterator[PlainEvent], number: int) -> Load:
    """Check that the log holds exactly the dataset followed by the appended events, in order."""
    verified = 0
    for event in peer.decoded_events():
        if event != next(expected, None):
            raise AssertionError(f"event {verified}, {event}, differs from the event that was written")
        verified += 1
    if verified != number:
        raise AssertionError(f"{verified} events instead of {number}")
    return Load(0, 0, 0, verified)


def _query_arguments(kind: QueryKind, jobs: int) -> list[str]:
    match kind:
        case "key":
            return dataset.keys(jobs)
        case "latest":
            return ["/".join(dataset.common_type())]
        case "type":
            return ["/".join(dataset.RARE_TYPE)]


def _check_result(kind: QueryKind, argument: str, events: list[PlainEvent]) -> list[PlainEvent]:
    """Return `events` if they match the query, otherwise raise."""
    matched = {key if kind == "key" else "/".join(event_type) for event_type, key, _ in events}
    if matched != {argument} or (kind != "key" and len(events) != 1):
        raise AssertionError(f"queried {argument}, got {len(events)} events of {matched}")
    return events


def _load(latencies: list[int], seconds: float, events: int) -> Load:
    p50, p99 = _quantiles_ms(latencies)
    return Load(len(latencies) / seconds, p50, p99, events)


def _quantiles_ms(latencies: list[int]) -> tuple[float, float]:
    ordered = sorted(latencies)
    if not ordered:
        raise AssertionError("no response within the measured time")
    return ordered[len(ordered) // 2] / 1e6, ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] / 1e6
