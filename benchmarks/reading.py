"""Reading from a long history: the embedded server with a million events stored, over HTTP."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from benchmarks import history, processes, servers, table
from benchmarks.servers import Peer
from benchmarks.table import Goal

ROUNDS = 200
WAITERS = 100
IDLE_POLLS = 500
IDLE_S = 5.0


def measured(directory: Path, events: int) -> str:
    """Fill a log, serve it, read it; the table."""
    history.store(directory, events)
    with servers.annals(directory) as peer:
        rows = list(_Readings(peer, directory).rows())
    return table.printed((f"{events:,} events stored", "p50", "p99", "goal", ""), rows)


class _Readings:
    def __init__(self, peer: Peer, directory: Path) -> None:
        self._host, _, port = peer.address.partition(":")
        self._port = int(port)
        self._headers = {"Authorization": f"Bearer {peer.token}", "Content-Type": "application/json"}
        self._processes = processes.of(directory)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """One row after the other."""
        one = http.client.HTTPConnection(self._host, self._port)
        jobs = iter(range(7, history.JOBS, 37))
        yield self._row("events of one job of 20,000, ms", Goal(10, True), lambda: self._jobs_events(one, next(jobs)))
        yield self._row("one event of a rare type, ms", None, lambda: self._count(one, "/events?types=rare/*", 1))
        latest = "/events/latest?types=job/finish/n7/*"
        yield self._row("latest of some types, ms", Goal(5, True), lambda: self._get(one, latest))
        orders = "/jobscheduler/master/api/order/folder/?return=OrderOverview"
        yield self._row("snapshot of a folder of 1,000 orders, ms", Goal(50, True), lambda: self._get(one, orders), 50)
        last = "/events/timeseries?maxResults=20"
        yield self._row("the last 20 by time, ms", None, lambda: self._get(one, last))
        yield self._woken()
        yield self._idle()

    def _row(self, name: str, goal: Goal | None, act: Callable[[], object], rounds: int = ROUNDS) -> tuple[str, ...]:
        act()
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            act()
            times.append((time.perf_counter() - began) * 1000)
        return _told(name, times, goal)

    def _woken(self) -> tuple[str, ...]:
        """From an append to the answer of a long poll, while others wait for something else."""
        times: list[float] = []
        with self._waiting(WAITERS):
            for _ in range(ROUNDS):
                times.append(self._one_wake() * 1000)
        p50, p99 = _percentiles(times)
        fast = Goal(5, True).reached(p50) == Goal(25, True).reached(p99) == "ok"
        name = f"append to a waiting poll, {WAITERS} others wait, ms"
        return name, table.number(p50), table.number(p99), "<= 5, <= 25", "ok" if fast else "short"

    def _one_wake(self) -> float:
        waiting = http.client.HTTPConnection(self._host, self._port)
        after = self._get(waiting, "/events?limit=-1")["eventId"]
        waiting.request("GET", f"/events?after={after}&timeout=30s", headers=self._headers)
        time.sleep(0.02)  # let it begin to wait
        publisher = http.client.HTTPConnection(self._host, self._port)
        began = time.perf_counter()
        body = json.dumps({"events": [{"type": ["tick"]}]})
        publisher.request("POST", "/events", body, self._headers)
        waiting.getresponse().read()
        took = time.perf_counter() - began
        publisher.getresponse().read()
        publisher.close()
        waiting.close()
        return took

    def _idle(self) -> tuple[str, ...]:
        """CPU of an idle server that holds long polls, and its memory."""
        with self._waiting(IDLE_POLLS):
            time.sleep(1.0)
            before = self._cpu_s()
            time.sleep(IDLE_S)
            percent = (self._cpu_s() - before) / IDLE_S * 100
            memory = self._memory_mb()
        goal = Goal(5, True).reached(percent) == Goal(200, True).reached(memory) == "ok"
        name = f"{IDLE_POLLS} polls held, idle: % of a core, MB of memory"
        return name, table.number(percent), table.number(memory), "<= 5, <= 200", "ok" if goal else "short"

    @contextmanager
    def _waiting(self, number: int) -> Iterator[None]:
        after = self._get(http.client.HTTPConnection(self._host, self._port), "/events?limit=-1")["eventId"]
        target = f"/events?types=never&after={after}&timeout=120s"
        connections = [http.client.HTTPConnection(self._host, self._port) for _ in range(number)]
        for connection in connections:
            connection.request("GET", target, headers=self._headers)
        try:
            yield
        finally:
            for connection in connections:
                connection.close()

    def _jobs_events(self, connection: http.client.HTTPConnection, job: int) -> None:
        found = self._get(connection, f"/events?keys=/job/{job}")
        if any(event["key"] != f"/job/{job}" for event in found.get("eventSnapshots", [])):
            raise RuntimeError("events of another job")

    def _count(self, connection: http.client.HTTPConnection, target: str, expected: int) -> None:
        found = len(self._get(connection, target)["eventSnapshots"])
        if found != expected:
            raise RuntimeError(f"{target}: {found} events instead of {expected}")

    def _get(self, connection: http.client.HTTPConnection, target: str) -> dict[str, Any]:
        connection.request("GET", target, headers=self._headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{target}: {text.decode()}")
        value: dict[str, Any] = json.loads(text)
        return value

    def _cpu_s(self) -> float:
        return sum(map(processes.cpu_s, self._processes))

    def _memory_mb(self) -> float:
        return sum(map(processes.memory_mb, self._processes))


def _told(name: str, times: list[float], goal: Goal | None) -> tuple[str, ...]:
    p50, p99 = _percentiles(times)
    reached = goal.reached(p50) if goal else ""
    return name, table.number(p50), table.number(p99), str(goal) if goal else "", reached


def _percentiles(times: list[float]) -> tuple[float, float]:
    cuts = quantiles(times, n=100)
    return cuts[49], cuts[98]
