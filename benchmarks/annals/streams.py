"""Latency of 1,000 open streams of a push feed while events are published at a steady rate.

Run as a module, it is the load generator: one loop over raw sockets that records arriving data and evaluates it at the
end.
"""

import argparse
import json
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers import processes, servers
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal

STREAMS = 1_000
EVENTS = 100
EVENTS_PER_S = 20
LATENCY_GOAL = Goal(250, at_most=True, column="p99")
MEMORY_GOAL = Goal(300, at_most=True)

WARM_UP_EVENTS = 5
"""Events published before the measured ones."""
TIMEOUT_S = 30.0
OPEN_BATCH = 50
"""Streams opened at a time."""

_FEED = "/organizations/local/pushy/job_status_feed"
_HEAD_END = b"\r\n\r\n"
_ID = re.compile(rb"\nid: (org-\d+)\n")
_EVENT_ID = re.compile(rb'\],"eventId":(\d+)\}')
_CHUNK = 64 * 1024

Arrivals = list[tuple[int, bytes]]
"""Time and content of the data received on a connection."""


def measure(directory: Path, events: int = EVENTS) -> Iterator[Table]:
    """Two tables: latency, and resource usage. Raises unless each stream received each event once and in order."""
    with servers.annals(directory) as peer:
        command = [sys.executable, "-m", "benchmarks.annals.streams", peer.address, "--token", peer.token]
        command += ["--events", str(events)]
        with subprocess.Popen(
            command, cwd=servers.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as load:
            assert load.stdout is not None
            output = load.stdout.readline()
            pids = processes.with_data_dir(directory)
            memory, threads = sum(map(processes.peak_mb, pids)), max(map(processes.threads, pids))
            load.communicate()  # closes stdin, which ends the load and its streams
    if not output:
        raise RuntimeError("not every stream received every event")
    result = json.loads(output)
    title = f"{STREAMS:,} streams of a push feed, {events} events, {EVENTS_PER_S}/s"
    times = {"p50": result["p50_ms"], "p99": result["p99_ms"]}
    yield Table(title, (Row("publish to each client", "ms", times, (LATENCY_GOAL,)),))
    rows = (
        Row("the server's memory at most", "MB", {"Annals": memory}, (MEMORY_GOAL,)),
        Row("the server's threads", "", {"Annals": threads}),
        Row("what the clients took", "% of a core", {"Annals": result["percent"]}),
    )
    yield Table("meanwhile", rows)


class _Load:
    """All stream clients and the publisher, in one thread."""

    def __init__(self, address: str, token: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._headers = f"Host: {address}\r\nAuthorization: Bearer {token}\r\n"
        self._selector = selectors.DefaultSelector()
        self._streams: list[Arrivals] = []
        self._responses: Arrivals = []
        self._publisher = self._connect(self._responses)
        self._departures: list[int] = []

    def open(self, streams: int) -> None:
        """Open the streams and wait until each has received its response head."""
        request = f"GET {_FEED} HTTP/1.1\r\n{self._headers}Accept: text/event-stream\r\n\r\n".encode()
        for start in range(0, streams, OPEN_BATCH):
            batch: list[Arrivals] = [[] for _ in range(min(OPEN_BATCH, streams - start))]
            for arrivals in batch:
                self._connect(arrivals).sendall(request)
            self._streams += batch
            self._receive_while_missing(partial(_have_started, batch))
        for arrivals in self._streams:
            if not arrivals[0][1].startswith(b"HTTP/1.1 200 "):
                raise AssertionError(f"unexpected response: {arrivals}")
            arrivals.clear()

    def publish(self, events: int, pause_s: float) -> None:
        """Publish events at a steady rate, and wait until all streams and the publisher have received them."""
        due = time.monotonic()
        for _ in range(events):
            due += pause_s
            self._receive_until(due)
            request = self._post(len(self._departures))
            self._departures.append(time.perf_counter_ns())
            self._publisher.sendall(request)
        expected = len(self._departures)
        self._receive_while_missing(
            lambda: all(_join(arrivals).count(b"\nid: ") >= expected for arrivals in self._streams)
        )
        self._receive_while_missing(lambda: len(_EVENT_ID.findall(_join(self._responses))) >= expected)

    def latencies_ms(self, after: int) -> list[float]:
        """Latencies of all but the first `after` events of each stream. Raises unless each stream has all, in order."""
        published = [b"org-" + event_id for event_id in _EVENT_ID.findall(_join(self._responses))]
        latencies: list[float] = []
        for arrivals in self._streams:
            if _ID.findall(_join(arrivals)) != published:
                raise AssertionError(f"published {published}, but a stream has {arrivals}")
            times = zip(_arrival_times(arrivals), self._departures, strict=True)
            latencies += [(arrived - departed) / 1e6 for arrived, departed in times][after:]
        return latencies

    def _connect(self, arrivals: Arrivals) -> socket.socket:
        sock = socket.create_connection(self._address, timeout=TIMEOUT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(sock, selectors.EVENT_READ, arrivals)
        return sock

    def _post(self, number: int) -> bytes:
        event = {"event": "start", "job": f"j{number}", "command": "uptime", "run_timeout": 60, "node_count": 3}
        body = json.dumps({**event, "user": "bench"}).encode()
        head = f"POST /events/push HTTP/1.1\r\n{self._headers}Content-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _receive_until(self, due: float) -> None:
        """Receive data until the monotonic time `due`."""
        while (left_s := due - time.monotonic()) > 0:
            self._receive(left_s)

    def _receive_while_missing(self, is_done: Callable[[], bool]) -> None:
        """Receive data until `is_done`. Raises after the timeout."""
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            if time.monotonic() > deadline:
                raise AssertionError("some events did not arrive")
            self._receive_until(time.monotonic() + 0.1)

    def _receive(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            sock: Any = key.fileobj
            data = sock.recv(_CHUNK)
            key.data.append((time.perf_counter_ns(), data))
            if not data:
                raise AssertionError("the server closed a stream")


def _have_started(streams: list[Arrivals]) -> bool:
    return all(_HEAD_END in _join(arrivals) for arrivals in streams)


def _join(arrivals: Arrivals) -> bytes:
    return b"".join(data for _, data in arrivals)


def _arrival_times(arrivals: Arrivals) -> Iterator[int]:
    """Arrival time of each event. An event may arrive in several pieces; the last one counts."""
    text, complete = b"", 0
    for arrived, data in arrivals:
        text += data
        for _ in range(text.count(b"\n\n") - complete):
            complete += 1
            yield arrived


def main() -> None:
    """Open the streams, publish, print the result, and keep the streams open until stdin is closed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--token", required=True)
    parser.add_argument("--events", type=int, default=EVENTS)
    args = parser.parse_args()
    load = _Load(args.address, args.token)
    load.open(STREAMS)
    load.publish(WARM_UP_EVENTS, 0.2)
    began, used = time.monotonic(), time.process_time()
    load.publish(args.events, 1 / EVENTS_PER_S)
    percent = (time.process_time() - used) / (time.monotonic() - began) * 100
    ordered = sorted(load.latencies_ms(after=WARM_UP_EVENTS))
    if len(ordered) != STREAMS * args.events:
        raise AssertionError(f"{len(ordered)} events instead of {STREAMS * args.events}")
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    print(json.dumps({"p50_ms": p50, "p99_ms": p99, "percent": percent}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
