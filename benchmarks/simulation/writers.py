"""Simulated Lambda functions that write to one log, directly or through the ingest queue.

Appends, retries and ingestion are the real code of Annals.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from benchmarks.aws.dynamodb_cost import job_texts
from benchmarks.load.job_events import job_events
from benchmarks.simulation.dynamodb import Latency, SimulatedLog, TokenBucket
from benchmarks.simulation.views import SimulatedViews
from benchmarks.simulation.virtual_time import VirtualTime
from chalicelib.adapters.aws.client import THROTTLED_BACKOFF
from chalicelib.domain.errors import Busy, Unavailable
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.ingest_message import IngestMessage
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.ingest import Ingester
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.log.receipts import ProjectedReceipts
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.tail_cache import TailCache

SERVER = 1
DISTINCT_REQUESTS = 64
"""Number of different requests, which are sent repeatedly."""

HANDLER_TIME_S = 0.005
"""Time a function works on a request: 1.5 ms of CPU (`benchmarks.aws.functions`) on less than a third of a core."""
SQS = Latency(0.010, 0.040)
"""A call to a FIFO queue: AWS documents about ten milliseconds as typical."""
SQS_LIMIT = 300.0
"""Calls per second of each kind for one message group, without batching, from the SQS developer guide."""
INVOKE_LATENCY_S = 0.020
"""Overhead of invoking the function for a batch. An assumption: there is no published value."""
SQS_BATCH = 10
"""Messages per batch, as configured in `infra/template/mappings.yaml`."""


@dataclass
class Statistics:
    """Outcomes of the requests of one run, and the resources used."""

    requests_sent: int = 0
    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    """Time of the acknowledgement, and seconds since the request."""
    refused: int = 0
    lags_s: list[float] = field(default_factory=list)
    """Seconds from a request to its commit, with a queue between them."""
    conflicts: int = 0
    invocations: int = 0
    run_time_s: float = 0.0
    """Total run time of functions."""
    queue_calls: int = 0

    def measure(self, name: str, value: float = 1, **dimensions: str) -> None:
        """Metrics callback of `Appender`."""
        del dimensions
        self.conflicts += int(value) if name == "Conflicts" else 0


class Simulation:
    """One log with writers that send requests for `seconds`."""

    def __init__(self, batch: int, seconds: float, seed: int) -> None:
        self.time = VirtualTime()
        self.rng = random.Random(seed)
        self.log = SimulatedLog(self.time, self.rng)
        self.views = SimulatedViews(self.time, self.rng, self.log)
        self.statistics = Statistics()
        self.seconds = seconds
        self._numbers = count(1)
        self._requests = requests(batch)

    @property
    def is_over(self) -> bool:
        """Whether no new requests are sent. Pending requests still finish."""
        return self.time.now_s >= self.seconds

    def appender(self) -> Appender:
        """An appender for one process. It caches the head of the log."""
        time = self.time
        reader = LogReader(self.log, self.views, tails=TailCache(self.log, self.views, clock=time.clock))
        return Appender(
            self.log,
            time.clock,
            time.sleep,
            time.monotonic,
            reader,
            self.statistics.measure,
            self.rng,
            receipts=ProjectedReceipts(reader, self.views.receipts, time.clock),
        )

    def texts(self) -> tuple[str, ...]:
        """The events of the next request."""
        return self._requests[next(self._numbers) % DISTINCT_REQUESTS]

    def random_start_delay(self) -> None:
        """Sleep, so that writers do not start at the same moment."""
        self.time.sleep(self.rng.random() * min(1.0, self.seconds / 10))


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which this part of the sorted `values` is."""
    return values[min(int(len(values) * part), len(values) - 1)] if values else 0.0


def requests(batch: int) -> list[tuple[str, ...]]:
    """The events of `DISTINCT_REQUESTS` requests, as stored in the log."""
    texts = job_texts(job_events(DISTINCT_REQUESTS * batch))
    return [tuple(texts[start : start + batch]) for start in range(0, len(texts), batch)]


def run_direct_writers(simulation: Simulation, writers: int, keyed: bool = False) -> None:
    """Run functions that each handle one request after the other. `keyed`: with an idempotency key in each."""
    simulation.time.run([_writer(simulation, name, keyed) for name in range(writers)])


def run_queue_writers(simulation: Simulation, writers: int) -> None:
    """Run senders to the ingest queue, and the one function that consumes it."""
    queue = Queue(simulation)
    simulation.time.run([queue.drain, *(_sender(simulation, queue) for _ in range(writers))])


def new_key(simulation: Simulation) -> str:
    """An idempotency key as the official client makes them: a UUID of version 7."""
    bits = simulation.rng.getrandbits
    return str(UUID(int=simulation.time.clock() << 80 | 7 << 76 | bits(12) << 64 | 2 << 62 | bits(62)))


def _writer(simulation: Simulation, name: int, keyed: bool) -> Callable[[], None]:
    appender, time, statistics = simulation.appender(), simulation.time, simulation.statistics

    def write() -> None:
        simulation.random_start_delay()
        for number in count():
            if simulation.is_over:
                return
            sent_at_s = time.now_s
            statistics.requests_sent += 1
            time.sleep(HANDLER_TIME_S)
            try:
                key = new_key(simulation) if keyed else None
                appender.append(Append(SERVER, simulation.texts(), f"{name}-{number}", idempotency_key=key))
            except (Busy, Unavailable):
                statistics.refused += 1
            else:
                statistics.acknowledged.append((time.now_s, time.now_s - sent_at_s))
            statistics.invocations += 1
            statistics.run_time_s += time.now_s - sent_at_s

    return write


class Queue:
    """The ingest queue with a single message group: one batch is in flight at a time."""

    def __init__(self, simulation: Simulation) -> None:
        self._world = simulation
        self._sent: list[tuple[float, tuple[str, ...]]] = []
        """Send time and events of each message."""
        self._consumed = 0
        self._sends = TokenBucket(SQS_LIMIT)

    def send(self, texts: tuple[str, ...], sent_at_s: float) -> None:
        """Send a message, retrying while throttled."""
        simulation = self._world
        for attempt in count():
            simulation.statistics.queue_calls += 1
            simulation.time.sleep(SQS.sample(simulation.rng))
            if self._sends.take(1, simulation.time.now_s):
                self._sent.append((sent_at_s, texts))
                return
            simulation.time.sleep(THROTTLED_BACKOFF.delay_s(min(attempt, 4), jitter=simulation.rng.random()))

    def drain(self) -> None:
        """Receive, ingest and delete until the run is over and the queue is empty."""
        simulation = self._world
        appender = simulation.appender()
        organizations = Organizations(simulation.log, appender)
        organizations.create("local")
        while not simulation.is_over or self._consumed < len(self._sent):
            simulation.time.sleep(SQS.sample(simulation.rng))
            batch = self._sent[self._consumed : self._consumed + SQS_BATCH]
            simulation.statistics.queue_calls += 1
            if batch:
                self._ingest(batch, organizations, appender)

    def put_aside(self, message: IngestMessage, reason: str) -> None:
        raise AssertionError(f"message {message.message_id} was refused: {reason}")

    def postpone(self, receipts: Sequence[str], delay_s: float) -> None:
        """Failed messages are received again at once."""

    def _ingest(
        self, batch: Sequence[tuple[float, tuple[str, ...]]], organizations: Organizations, appender: Appender
    ) -> None:
        simulation, first = self._world, self._consumed + 1
        messages = [
            IngestMessage(str(number), "", "local", number, 1, 0, "", texts)
            for number, (_, texts) in enumerate(batch, start=first)
        ]
        simulation.time.sleep(INVOKE_LATENCY_S)
        began_s = simulation.time.now_s
        simulation.time.sleep(HANDLER_TIME_S)
        failed = Ingester(organizations, appender, simulation.log, self).ingest(messages)
        simulation.statistics.invocations += 1
        simulation.statistics.run_time_s += simulation.time.now_s - began_s
        simulation.statistics.lags_s += (
            simulation.time.now_s - sent_at_s for sent_at_s, _ in batch[: len(batch) - len(failed)]
        )
        self._consumed += len(batch) - len(failed)
        simulation.time.sleep(SQS.sample(simulation.rng))
        simulation.statistics.queue_calls += 1


def _sender(simulation: Simulation, queue: Queue) -> Callable[[], None]:
    time, statistics = simulation.time, simulation.statistics

    def send() -> None:
        simulation.random_start_delay()
        while not simulation.is_over:
            sent_at_s = time.now_s
            statistics.requests_sent += 1
            queue.send(simulation.texts(), sent_at_s)
            statistics.acknowledged.append((time.now_s, time.now_s - sent_at_s))

    return send
