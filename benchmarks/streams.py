"""A thousand streams of one organization's push feed, and events published at a steady pace.

Run as a module it is the load: one loop over raw sockets that only keeps what arrives, and when. It is looked at in the
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

from benchmarks import processes, servers
from benchmarks.results import Row, Table
from benchmarks.table import Goal

STREAMS = 1_000
EVENTS = 100
PER_S = 20
LATEST = Goal(250, at_most=True, column="p99")
MEMORY = Goal(300, at_most=True)

WARM_UP = 5
"""So many events come before those that are measured."""
LONGEST_S = 30.0
TOGETHER = 50
"""So many streams are opened at a time."""

_FEED = "/organizations/local/pushy/job_status_feed"
_HEAD_END = b"\r\n\r\n"
_ID = re.compile(rb"\nid: (org-\d+)\n")
_EVENT_ID = re.compile(rb'\],"eventId":(\d+)\}')
_CHUNK = 64 * 1024

Arrivals = list[tuple[int, bytes]]
"""What came on a connection, and when."""


def measured(directory: Path, events: int = EVENTS) -> Iterator[Table]:
    """Serve, open the streams, publish; two tables. Raises unless every stream had every event once and in order."""
    with servers.annals(directory) as peer:
        command = [sys.executable, "-m", "benchmarks.streams", peer.address, "--token", peer.token]
        command += ["--events", str(events)]
        with subprocess.Popen(
            command, cwd=servers.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as load:
            assert load.stdout is not None
            told = load.stdout.readline()
            own = processes.of(directory)
            memory, threads = sum(map(processes.peak_mb, own)), max(map(processes.threads, own))
            load.communicate()  # it keeps its streams open until now
    if not told:
        raise RuntimeError("not every stream had every event")
    found = json.loads(told)
    title = f"{STREAMS:,} streams of a push feed, {events} events, {PER_S}/s"
    times = {"p50": found["p50_ms"], "p99": found["p99_ms"]}
    yield Table(title, (Row("publish to each client", "ms", times, (LATEST,)),))
    rows = (
        Row("the server's memory at most", "MB", {"Annals": memory}, (MEMORY,)),
        Row("the server's threads", "", {"Annals": threads}),
        Row("what the clients took", "% of a core", {"Annals": found["percent"]}),
    )
    yield Table("meanwhile", rows)


class _Load:
    """All clients, and the publisher."""

    def __init__(self, address: str, token: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._headers = f"Host: {address}\r\nAuthorization: Bearer {token}\r\n"
        self._selector = selectors.DefaultSelector()
        self._streams: list[Arrivals] = []
        self._answers: Arrivals = []
        self._publisher = self._connected(self._answers)
        self._departures: list[int] = []

    def open(self, streams: int) -> None:
        """Open so many streams; each has begun before this returns."""
        request = f"GET {_FEED} HTTP/1.1\r\n{self._headers}Accept: text/event-stream\r\n\r\n".encode()
        for start in range(0, streams, TOGETHER):
            some: list[Arrivals] = [[] for _ in range(min(TOGETHER, streams - start))]
            for arrivals in some:
                self._connected(arrivals).sendall(request)
            self._streams += some
            self._run_until(partial(_have_begun, some))
        for arrivals in self._streams:
            if not arrivals[0][1].startswith(b"HTTP/1.1 200 "):
                raise AssertionError(f"no stream: {arrivals}")
            arrivals.clear()

    def publish(self, events: int, pause_s: float) -> None:
        """Publish one event after the other at a steady pace, and wait until all have arrived, as far as one sees."""
        due = time.monotonic()
        for _ in range(events):
            due += pause_s
            self._run_to(due)
            request = self._post(len(self._departures))
            self._departures.append(time.perf_counter_ns())
            self._publisher.sendall(request)
        wanted = len(self._departures)
        self._run_until(lambda: all(_joined(arrivals).count(b"\nid: ") >= wanted for arrivals in self._streams))
        self._run_until(lambda: len(_EVENT_ID.findall(_joined(self._answers))) >= wanted)

    def latencies_ms(self, after: int) -> list[float]:
        """Of each event but the first `after` on each stream; raises unless each stream has all, in order."""
        published = [b"org-" + event_id for event_id in _EVENT_ID.findall(_joined(self._answers))]
        found: list[float] = []
        for arrivals in self._streams:
            if _ID.findall(_joined(arrivals)) != published:
                raise AssertionError(f"published {published}, but a stream has {arrivals}")
            times = zip(_times(arrivals), self._departures, strict=True)
            found += [(arrived - departed) / 1e6 for arrived, departed in times][after:]
        return found

    def _connected(self, arrivals: Arrivals) -> socket.socket:
        sock = socket.create_connection(self._address, timeout=LONGEST_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(sock, selectors.EVENT_READ, arrivals)
        return sock

    def _post(self, number: int) -> bytes:
        event = {"event": "start", "job": f"j{number}", "command": "uptime", "run_timeout": 60, "node_count": 3}
        body = json.dumps({**event, "user": "bench"}).encode()
        head = f"POST /events/push HTTP/1.1\r\n{self._headers}Content-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _run_to(self, due: float) -> None:
        """Receive until it is time."""
        while (left_s := due - time.monotonic()) > 0:
            self._receive(left_s)

    def _run_until(self, is_done: Callable[[], bool]) -> None:
        """Receive until nothing more is missing."""
        deadline = time.monotonic() + LONGEST_S
        while not is_done():
            if time.monotonic() > deadline:
                raise AssertionError("not all has arrived")
            self._run_to(time.monotonic() + 0.1)

    def _receive(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            sock: Any = key.fileobj
            data = sock.recv(_CHUNK)
            key.data.append((time.perf_counter_ns(), data))
            if not data:
                raise AssertionError("the server closed a stream")


def _have_begun(streams: list[Arrivals]) -> bool:
    return all(_HEAD_END in _joined(arrivals) for arrivals in streams)


def _joined(arrivals: Arrivals) -> bytes:
    return b"".join(data for _, data in arrivals)


def _times(arrivals: Arrivals) -> Iterator[int]:
    """When each event was there; one may have come in two pieces, but mostly each comes in one of its own."""
    text, told = b"", 0
    for arrived, data in arrivals:
        text += data
        for _ in range(text.count(b"\n\n") - told):
            told += 1
            yield arrived


def main() -> None:
    """Open the streams, publish, print what was found, and stay until told to go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--token", required=True)
    parser.add_argument("--events", type=int, default=EVENTS)
    args = parser.parse_args()
    load = _Load(args.address, args.token)
    load.open(STREAMS)
    load.publish(WARM_UP, 0.2)
    began, used = time.monotonic(), time.process_time()
    load.publish(args.events, 1 / PER_S)
    percent = (time.process_time() - used) / (time.monotonic() - began) * 100
    ordered = sorted(load.latencies_ms(after=WARM_UP))
    if len(ordered) != STREAMS * args.events:
        raise AssertionError(f"{len(ordered)} events instead of {STREAMS * args.events}")
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    print(json.dumps({"p50_ms": p50, "p99_ms": p99, "percent": percent}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
