"""Simulated hubs that write to one log: each groups the requests of its publishers into runs.

The appends are the real code of Annals. The server around it, its CPU and its publishers are modelled.
"""

import random
from base64 import b64encode
from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from benchmarks.aws.dynamodb_cost import job_texts
from benchmarks.load.job_events import job_events
from benchmarks.simulation.writers import SERVER, Simulation, new_key
from chalicelib.domain.errors import AnnalsError, Busy, Unavailable
from chalicelib.domain.log.append import Append
from chalicelib.services.log.group_queue import MAX_GROUP_SIZE
from chalicelib.services.log.parallel_group_commit import MAX_GROUP_BYTES

REQUEST_CPU_S = 0.000080
PUT_CPU_S = 0.0008
"""CPU time of a request with one event, and of an item that is deflated, signed and sent.

The hub on DynamoDB Local used 86 microseconds a request with 256 publishers, and 176 with 16, whose items are smaller.
"""
ROUND_TRIP_S = 0.002
"""From a publisher in the same region through the load balancer to the hub and back."""
SUBJECT = "runner"
"""The publisher's name, which each commit contains."""
DISTINCT_EVENTS = 20_000
"""Enough that the events of a run differ. Repeated ones would deflate too well."""


@dataclass(frozen=True, slots=True)
class HubLoad:
    """Publishers that each send one request of one event after the other."""

    hubs: int
    publishers: int
    """In total. The load balancer distributes them evenly."""
    keyed: bool = False
    """Whether each request has an idempotency key, as those of the official client do."""
    noise_bytes: int = 0
    """Size of random text in each event, which deflates to three quarters, in addition to a job event."""


class _Request(NamedTuple):
    arrives_s: float
    publisher: int
    sent_s: float


def run_hubs(simulation: Simulation, load: HubLoad) -> None:
    """Run all hubs and their publishers."""
    texts = event_texts(load.noise_bytes, simulation.rng)
    hubs = [_Hub(simulation, load, number, texts) for number in range(load.hubs)]
    simulation.time.run([hub.run for hub in hubs])


def event_texts(noise_bytes: int, rng: random.Random, number: int = DISTINCT_EVENTS) -> list[str]:
    """Job events as stored in the log, each with random text that hardly deflates."""
    events = job_events(number)
    for event in events:
        if noise_bytes:
            data = event["payload"]["data"]
            data["params"] = {**data["params"], "noise": b64encode(rng.randbytes(noise_bytes * 3 // 4)).decode()}
    return job_texts(events)


class _Hub:
    """One server process. Its network thread parses requests while a group is written."""

    def __init__(self, simulation: Simulation, load: HubLoad, number: int, texts: list[str]) -> None:
        self._simulation = simulation
        self._appender = simulation.appender()
        self._name = f"hub{number}-"
        self._keyed = load.keyed
        self._texts = texts
        self._next_text = number * len(texts) // load.hubs
        self._requests_made = 0
        publishers = range(number, load.publishers, load.hubs)
        starts_s = [simulation.rng.random() * min(0.1, simulation.seconds / 10) for _ in publishers]
        self._arriving = [_Request(start_s, name, start_s) for start_s, name in zip(starts_s, publishers, strict=True)]
        heapify(self._arriving)
        self._parsed: deque[_Request] = deque()
        self._cpu_free_s = 0.0

    def run(self) -> None:
        time = self._simulation.time
        while self._arriving or self._parsed:
            self._parse(time.now_s)
            if self._parsed:
                self._write()
            elif self._arriving:
                time.sleep(max(self._parsed_at(self._arriving[0]) - time.now_s, 0.0))

    def _parsed_at(self, request: _Request) -> float:
        return max(request.arrives_s, self._cpu_free_s) + REQUEST_CPU_S

    def _parse(self, now_s: float) -> None:
        """Move the requests that one core has parsed until now to the queue."""
        while self._arriving and self._parsed_at(self._arriving[0]) <= now_s + 1e-9:
            request = heappop(self._arriving)
            self._cpu_free_s = self._parsed_at(request)
            self._parsed.append(request)

    def _write(self) -> None:
        """Write the waiting requests as one group, and let their publishers send the next ones."""
        time, statistics = self._simulation.time, self._simulation.statistics
        group: list[_Request] = []
        appends: list[Append] = []
        size_bytes = 0
        while self._parsed and len(group) < MAX_GROUP_SIZE:
            append = self._make_append()
            size_bytes += len(append.texts[0])
            if group and size_bytes > MAX_GROUP_BYTES:
                break
            group.append(self._parsed.popleft())
            appends.append(append)
        statistics.requests_sent += len(group)
        self._cpu_free_s = max(self._cpu_free_s, time.now_s) + PUT_CPU_S
        time.sleep(PUT_CPU_S)
        try:
            outcomes = self._appender.append_group(appends)
        except (Busy, Unavailable):
            statistics.refused += len(group)
        else:
            errors = [outcome for outcome in outcomes if isinstance(outcome, AnnalsError)]
            assert not errors, errors
            statistics.acknowledged += [
                (time.now_s, time.now_s - request.sent_s + ROUND_TRIP_S / 2) for request in group
            ]
        if not self._simulation.is_over:
            for request in group:
                sent_s = time.now_s + ROUND_TRIP_S / 2
                heappush(self._arriving, _Request(sent_s + ROUND_TRIP_S / 2, request.publisher, sent_s))

    def _make_append(self) -> Append:
        self._requests_made += 1
        self._next_text = (self._next_text + 1) % len(self._texts)
        key = new_key(self._simulation) if self._keyed else None
        text = self._texts[self._next_text]
        return Append(SERVER, (text,), f"{self._name}{self._requests_made:x}", idempotency_key=key, by=SUBJECT)
