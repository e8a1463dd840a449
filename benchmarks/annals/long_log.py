"""Annals on a long log over HTTP: queries that only it offers, and many concurrent long polls."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import quantiles
from typing import Any

from benchmarks.load.job_events import DATA, KEY, TYPE
from benchmarks.peers import processes
from benchmarks.peers.servers import Peer
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal

WAITERS = 100
IDLE_POLLS = 500
IDLE_S = 5.0


def measure(peer: Peer, rounds: int) -> Iterator[Table]:
    """Two tables: latencies, and the cost of idle long polls. Each round appends one event."""
    measurement = _Measurement(peer, rounds)
    yield Table("Annals alone", tuple(measurement.rows()))
    yield Table(f"{IDLE_POLLS} long polls held by an idle server", tuple(measurement.idle()))


class _Measurement:
    def __init__(self, peer: Peer, rounds: int) -> None:
        self._host, _, port = peer.address.partition(":")
        self._port = int(port)
        self._headers = {"Authorization": f"Bearer {peer.token}", "Content-Type": "application/json"}
        self._processes = processes.with_data_dir(peer.directory)
        self._rounds = rounds

    def rows(self) -> Iterator[Row]:
        connection = http.client.HTTPConnection(self._host, self._port)
        targets = {
            "latest of some types": ("/events/latest?types=job/finish/n7/*", Goal(5, at_most=True)),
            "snapshot of a folder of orders": (
                "/jobscheduler/master/api/order/folder/?return=OrderOverview",
                Goal(50, at_most=True),
            ),
            "the last 20 by time": ("/events/timeseries?maxResults=20", None),
        }
        for name, (target, goal) in targets.items():
            yield _row(name, self._query_latencies(connection, target), (goal,) if goal else ())
        goals = (Goal(5, at_most=True, column="p50"), Goal(25, at_most=True, column="p99"))
        yield _row(f"append to a waiting poll while {WAITERS} others wait", self._wake_latencies(), goals)

    def idle(self) -> Iterator[Row]:
        """CPU time and memory of an idle server that holds long polls."""
        with self._idle_polls(IDLE_POLLS):
            time.sleep(1.0)
            before = processes.total_cpu_s(self._processes)
            time.sleep(IDLE_S)
            percent = (processes.total_cpu_s(self._processes) - before) / IDLE_S * 100
            memory_mb = sum(map(processes.memory_mb, self._processes))
        yield Row("CPU", "% of a core", {"Annals": percent}, (Goal(5, at_most=True),))
        yield Row("memory", "MB", {"Annals": memory_mb}, (Goal(200, at_most=True),))

    def _query_latencies(self, connection: http.client.HTTPConnection, target: str) -> list[float]:
        self._get(connection, target)
        times = []
        for _ in range(self._rounds):
            began = time.perf_counter()
            self._get(connection, target)
            times.append((time.perf_counter() - began) * 1000)
        return times

    def _wake_latencies(self) -> list[float]:
        """Milliseconds from an append to the response of a long poll, while other polls wait for other events."""
        with self._idle_polls(WAITERS):
            return [self._wake_latency() * 1000 for _ in range(self._rounds)]

    def _wake_latency(self) -> float:
        waiting = http.client.HTTPConnection(self._host, self._port)
        after = self._get(waiting, "/events?limit=-1")["eventId"]
        waiting.request("GET", f"/events?after={after}&timeout=30s", headers=self._headers)
        time.sleep(0.02)  # until the server holds the poll
        publisher = http.client.HTTPConnection(self._host, self._port)
        began = time.perf_counter()
        body = json.dumps({"events": [{"type": TYPE, "key": KEY, "payload": {"type": "json", "data": DATA}}]})
        publisher.request("POST", "/events", body, self._headers)
        waiting.getresponse().read()
        took = time.perf_counter() - began
        publisher.getresponse().read()
        publisher.close()
        waiting.close()
        return took

    @contextmanager
    def _idle_polls(self, number: int) -> Iterator[None]:
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

    def _get(self, connection: http.client.HTTPConnection, target: str) -> dict[str, Any]:
        connection.request("GET", target, headers=self._headers)
        response = connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise RuntimeError(f"{target}: {text.decode()}")
        value: dict[str, Any] = json.loads(text)
        return value


def _row(name: str, times: list[float], goals: tuple[Goal, ...]) -> Row:
    cuts = quantiles(times, n=100)
    return Row(name, "ms", {"p50": cuts[49], "p99": cuts[98]}, goals)
