"""A load generator: the same loops for every peer, in a process of its own. Standard library only.

Each task prints one line of JSON; a wrong answer ends the process with an error.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, cycle, islice, repeat
from typing import Any, Literal, Protocol

from benchmarks import past
from benchmarks.events import DATA, KEY, TYPE
from benchmarks.past import Told

WARM_UP_S = 0.3
PAUSE_S = 0.003
"""Before an append that a reader waits for: time enough for it to be waiting again."""
LONGEST_WAIT_S = 10.0
MUCH_LONGER = 8

APPENDED: Told = (tuple(TYPE), KEY, DATA)
"""What is appended, over and over."""

Question = Literal["key", "latest", "type"]
"""All events of a key, the last of a type, all of a type."""


class Peer(Protocol):
    """An event log as its client sees it; each call here opens a connection of its own."""

    def store(self, events: Iterator[Told]) -> None:
        """Append all of these, as fast as may be."""

    def appender(self, events: int) -> Callable[[], None]:
        """What appends `events` events in one go, and returns when the peer has answered."""

    def pages(self) -> Iterator[int]:
        """How many events each page of the whole log has; no more is looked at than its client must."""

    def told(self) -> Iterator[Told]:
        """Each event of the whole log, decoded."""

    def asker(self, question: Question) -> Callable[[str], list[Told]]:
        """What asks this for a key, or for a type written with slashes; the answer is decoded."""

    def follower(self) -> Callable[[], int]:
        """What waits for the next events after the present end, and returns how many came."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a task found: units per second, and how long one took."""

    per_s: float
    p50_ms: float
    p99_ms: float
    events: int
    """How many events were appended, warming up included; for readers: read by the first that came to its end."""


def main(peer: Callable[[str, str], Peer], together: "Together | None" = None) -> None:
    """Do the task that the command line names; clients that append together are threads unless told otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["store", "append", "read", "decode", "ask", "wait", "verify"])
    parser.add_argument("address")
    parser.add_argument("--token", default="")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--events", type=int, default=0, help="how many the past has")
    parser.add_argument("--appended", type=int, default=0, help="how many were appended since")
    parser.add_argument("--question", choices=["key", "latest", "type"], default="key")
    args = parser.parse_args()
    log, jobs = peer(args.address, args.token), jobs_of(args.events)
    match args.task:
        case "store":
            log.store(past.events(args.events, jobs))
            found = Load(0, 0, 0, args.events)
        case "append":
            found = append(log, together or in_threads, args.clients, args.batch, args.seconds)
        case "read":
            found = read(log.pages, args.seconds)
        case "decode":
            found = read(lambda: (1 for _ in log.told()), args.seconds)
        case "ask":
            found = ask(log, args.question, _subjects(args.question, jobs), args.times, args.seconds)
        case "wait":
            found = wait(log, args.times)
        case _:
            wanted = chain(past.events(args.events, jobs), repeat(APPENDED, args.appended))
            found = verify(log, wanted, args.events + args.appended)
    print(json.dumps(asdict(found)))


def jobs_of(events: int) -> int:
    """How many jobs a log of that length tells of."""
    return max(events // past.EVENTS_OF_A_JOB, 1)


class Stopwatch:
    """Takes the times of one client's calls: of those that begin after the warm-up and end before the end."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._start = time.perf_counter_ns()
        self.latencies: list[int] = []
        self.calls = 0

    def goes(self) -> bool:
        """Whether there is time for another call."""
        return self._start < self._end_ns

    def done(self) -> None:
        """A call has ended, and the next one begins."""
        stop = time.perf_counter_ns()
        self.calls += 1
        if self._begin_ns <= self._start and stop <= self._end_ns:
            self.latencies.append(stop - self._start)
        self._start = stop


Together = Callable[[Any, int, int], Callable[[Sequence[Stopwatch]], None]]
"""How clients of a peer, so many with so many events, append at the same time: each as long as its stopwatch goes."""


def append(peer: Peer, together: Together, clients: int, batch: int, seconds: float) -> Load:
    """Append from so many clients for `seconds`, after a short while to warm up."""
    run = together(peer, clients, batch)
    begin_ns = time.perf_counter_ns() + int(WARM_UP_S * 1e9)
    watches = [Stopwatch(begin_ns, begin_ns + int(seconds * 1e9)) for _ in range(clients)]
    run(watches)
    latencies = list(chain.from_iterable(watch.latencies for watch in watches))
    return _load(latencies, seconds, sum(watch.calls for watch in watches) * batch)


def in_threads(peer: Peer, clients: int, batch: int) -> Callable[[Sequence[Stopwatch]], None]:
    """Each client is a thread; the first failure is raised here."""
    appenders = [peer.appender(batch) for _ in range(clients)]
    failures: list[BaseException] = []

    def repeatedly(once: Callable[[], None], watch: Stopwatch) -> None:
        try:
            while watch.goes():
                once()
                watch.done()
        except BaseException as failure:
            failures.append(failure)

    def run(watches: Sequence[Stopwatch]) -> None:
        threads = [threading.Thread(target=repeatedly, args=each) for each in zip(appenders, watches, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    return run


def read(pages: Callable[[], Iterator[int]], seconds: float) -> Load:
    """Read the whole log, again and again for `seconds`; the units are events.

    A pass that takes much longer is broken off: its events count for the speed, and none for `events`.
    """
    latencies, passes, events = [], [], 0
    begin = start = time.perf_counter_ns()
    while start - begin < seconds * 1e9:
        before = events
        for number in pages():
            events += number
            if time.perf_counter_ns() - begin > MUCH_LONGER * seconds * 1e9:
                break
        else:
            passes.append(events - before)
        stop = time.perf_counter_ns()
        latencies.append(stop - start)
        start = stop
    p50, p99 = _quantiles_ms(latencies)
    return Load(events / ((start - begin) / 1e9), p50, p99, passes[0] if passes else 0)


def ask(peer: Peer, question: Question, subjects: Sequence[str], times: int, seconds: float) -> Load:
    """Ask `times` times for one subject after the other, but for no longer than `seconds`."""
    answer = peer.asker(question)
    first = _right(question, subjects[0], answer(subjects[0]))
    latencies: list[int] = []
    begin = time.perf_counter_ns()
    for subject in islice(cycle(subjects), times):
        start = time.perf_counter_ns()
        found = answer(subject)
        latencies.append(time.perf_counter_ns() - start)
        _right(question, subject, found)
        if time.perf_counter_ns() - begin > seconds * 1e9:
            break
    return _load(latencies, sum(latencies) / 1e9, len(first))


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


def verify(peer: Peer, wanted: Iterator[Told], number: int) -> Load:
    """Look at every event: the past, and then what was appended, in this order and nothing else."""
    found = 0
    for event in peer.told():
        if event != next(wanted, None):
            raise AssertionError(f"event {found}, {event}, is not what was appended there")
        found += 1
    if found != number:
        raise AssertionError(f"{found} events instead of {number}")
    return Load(0, 0, 0, found)


def _subjects(question: Question, jobs: int) -> list[str]:
    match question:
        case "key":
            return past.keys(jobs)
        case "latest":
            return ["/".join(past.common_type())]
        case "type":
            return ["/".join(past.RARE)]


def _right(question: Question, subject: str, found: list[Told]) -> list[Told]:
    """What was found, if it is what was asked for."""
    seen = {key if question == "key" else "/".join(event_type) for event_type, key, _ in found}
    if seen != {subject} or (question != "key" and len(found) != 1):
        raise AssertionError(f"asked for {subject}, got {len(found)} events of {seen}")
    return found


def _load(latencies: list[int], seconds: float, events: int) -> Load:
    p50, p99 = _quantiles_ms(latencies)
    return Load(len(latencies) / seconds, p50, p99, events)


def _quantiles_ms(latencies: list[int]) -> tuple[float, float]:
    ordered = sorted(latencies)
    if not ordered:
        raise AssertionError("not one answer within the time to measure")
    return ordered[len(ordered) // 2] / 1e6, ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] / 1e6
