"""Functions that write to one log, in virtual time: each by itself, or all through the ingest queue.

What appends, retries and ingests is the product's own code.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from benchmarks.dynamodb_cost import job_texts
from benchmarks.events import job_events
from benchmarks.simulated_dynamodb import Allowance, Latency, SimulatedLog
from benchmarks.virtual_time import VirtualTime
from chalicelib.adapters.aws.client import THROTTLED_PAUSE_S
from chalicelib.domain.errors import Busy, Unavailable
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.ingest_message import Message
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.ingest import ingest
from chalicelib.services.log.organizations import Organizations

SERVER = 1
KINDS = 64
"""Different requests; they are sent over and over."""

HANDLING_S = 0.005
"""A function's own work on a request: 1.5 ms of CPU (`benchmarks.functions`), on less than a third of a core."""
SQS = Latency(0.010, 0.040)
"""A call to a FIFO queue: some ten milliseconds is what AWS calls typical."""
SQS_LIMIT = 300.0
"""Calls a second of each kind for one message group: SQS's developer guide, per partition and without batches."""
INVOKE_S = 0.020
"""From what the queue gave to the function's first line, and back: nobody publishes it, a guess."""
RECEIVED = 10
"""Messages taken at once: so `infra/template/mappings.yaml` has it."""


@dataclass
class Tally:
    """What became of the requests of one run, and what that took."""

    asked: int = 0
    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    """When, and how long after the request."""
    refused: int = 0
    lags_s: list[float] = field(default_factory=list)
    """From a request to its commit, where a queue lies between."""
    conflicts: int = 0
    invocations: int = 0
    worked_s: float = 0.0
    """How long functions ran, together."""
    queue_calls: int = 0

    def measure(self, name: str, value: float = 1, **dimensions: str) -> None:
        """What an Appender tells."""
        del dimensions
        self.conflicts += int(value) if name == "Conflicts" else 0


class World:
    """One log, and those who write to it for `seconds`."""

    def __init__(self, batch: int, seconds: float, seed: int) -> None:
        self.time = VirtualTime()
        self.chance = random.Random(seed)
        self.log = SimulatedLog(self.time, self.chance)
        self.tally = Tally()
        self.seconds = seconds
        self._numbers = count(1)
        self._requests = requests(batch)

    @property
    def is_over(self) -> bool:
        """Whether nobody asks any more; what is under way goes on."""
        return self.time.now_s >= self.seconds

    def appender(self) -> Appender:
        """That of one function, which remembers where the log ends."""
        time = self.time
        return Appender(
            self.log, time.clock, time.sleep, time.monotonic, measure=self.tally.measure, chance=self.chance
        )

    def texts(self) -> tuple[str, ...]:
        """The next request's events."""
        return self._requests[next(self._numbers) % KINDS]

    def begin(self) -> None:
        """Not all begin at the same moment."""
        self.time.sleep(self.chance.random() * min(1.0, self.seconds / 10))


def requests(batch: int) -> list[tuple[str, ...]]:
    """The events of some requests, as the log keeps them."""
    texts = job_texts(job_events(KINDS * batch))
    return [tuple(texts[start : start + batch]) for start in range(0, len(texts), batch)]


def directly(world: World, writers: int) -> None:
    """So many functions, each of which gets the next request as soon as it has answered one."""
    world.time.run([_writer(world, name) for name in range(writers)])


def through_the_queue(world: World, writers: int) -> None:
    """So many who send to the ingest queue, one message after the other, and the one function that empties it."""
    queue = Queue(world)
    world.time.run([queue.drain, *(_sender(world, queue) for _ in range(writers))])


def _writer(world: World, name: int) -> Callable[[], None]:
    appender, time, tally = world.appender(), world.time, world.tally

    def write() -> None:
        world.begin()
        for number in count():
            if world.is_over:
                return
            asked_s = time.now_s
            tally.asked += 1
            time.sleep(HANDLING_S)
            try:
                appender.append(Append(SERVER, world.texts(), f"{name}-{number}"))
            except (Busy, Unavailable):
                tally.refused += 1
            else:
                tally.acknowledged.append((time.now_s, time.now_s - asked_s))
            tally.invocations += 1
            tally.worked_s += time.now_s - asked_s

    return write


class Queue:
    """The ingest queue, all its messages in one group; one batch of them is under way at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sent: list[tuple[float, tuple[str, ...]]] = []
        """When, and what."""
        self._taken = 0
        self._sends = Allowance(SQS_LIMIT)

    def send(self, texts: tuple[str, ...], asked_s: float) -> None:
        """Return when the queue has it, however often it is throttled before."""
        world = self._world
        for attempt in count():
            world.tally.queue_calls += 1
            world.time.sleep(SQS.drawn(world.chance))
            if self._sends.take(1, world.time.now_s):
                self._sent.append((asked_s, texts))
                return
            world.time.sleep(world.chance.random() * THROTTLED_PAUSE_S * 2 ** min(attempt, 4))

    def drain(self) -> None:
        """Lambda's poller and the function: receive, ingest, delete, until nobody sends and nothing is left."""
        world = self._world
        appender = world.appender()
        organizations = Organizations(world.log, appender)
        organizations.create("local")
        while not world.is_over or self._taken < len(self._sent):
            world.time.sleep(SQS.drawn(world.chance))
            batch = self._sent[self._taken : self._taken + RECEIVED]
            world.tally.queue_calls += 1
            if batch:
                self._ingest(batch, organizations, appender)

    def _ingest(
        self, batch: Sequence[tuple[float, tuple[str, ...]]], organizations: Organizations, appender: Appender
    ) -> None:
        world, first = self._world, self._taken + 1
        messages = [
            Message(str(number), "local", number, 0, texts) for number, (_, texts) in enumerate(batch, start=first)
        ]
        world.time.sleep(INVOKE_S)
        began_s = world.time.now_s
        world.time.sleep(HANDLING_S)
        failed = ingest(messages, organizations, appender, world.log)
        world.tally.invocations += 1
        world.tally.worked_s += world.time.now_s - began_s
        world.tally.lags_s += (world.time.now_s - asked_s for asked_s, _ in batch[: len(batch) - len(failed)])
        self._taken += len(batch) - len(failed)
        world.time.sleep(SQS.drawn(world.chance))
        world.tally.queue_calls += 1


def _sender(world: World, queue: Queue) -> Callable[[], None]:
    time, tally = world.time, world.tally

    def send() -> None:
        world.begin()
        while not world.is_over:
            asked_s = time.now_s
            tally.asked += 1
            queue.send(world.texts(), asked_s)
            tally.acknowledged.append((time.now_s, time.now_s - asked_s))

    return send
