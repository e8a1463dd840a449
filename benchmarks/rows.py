"""What is measured of both peers, in which order, and what it should come to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from statistics import median

from benchmarks.load import Load
from benchmarks.servers import Peer
from benchmarks.table import Goal, number

Loads = tuple[list[Load], list[Load]]
"""Ours and theirs, one of each a round."""

CLIENTS = 16
BATCH = 20

APPENDS: dict[tuple[int, int], Goal | None] = {
    (1, 1): Goal(0.6),
    (CLIENTS, 1): Goal(0.3),
    (1, BATCH): None,
    (CLIENTS, BATCH): Goal(0.5),
}
"""Clients and events per append: the goal, as ratio to UmaDB's appends/s."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    rounds: int
    seconds: float
    fill_times: int
    """Appends by each of the clients before anything is measured, once of one event, once of a batch."""
    waits: int


class Run:
    """Both peers measured in turns; remembers how many events each must have."""

    def __init__(self, ours: Peer, theirs: Peer, effort: Effort) -> None:
        self._peers = (ours, theirs)
        self._effort = effort
        self._appended = {peer.name: 0 for peer in self._peers}

    def rows(self) -> Iterator[list[str]]:
        """The rows of the table: name, ours, theirs, ratio, its range, goal, whether it is reached."""
        self._fill()
        yield from self._read()
        for (clients, batch), goal in APPENDS.items():
            yield from self._append(clients, batch, goal)
        yield from self._wait()

    def verify(self) -> str:
        """Look at every event of both; raises unless each has exactly what was appended."""
        found = {peer.name: peer.load("verify").events for peer in self._peers}
        if found != self._appended:
            raise AssertionError(f"appended {self._appended}, but found {found}")
        return ", ".join(f"{events:,} in {name}" for name, events in found.items())

    def _fill(self) -> None:
        """Both logs begin with the same events, so that reading the whole log means the same."""
        for peer in self._peers:
            for batch in (1, BATCH):
                filled = peer.load("fill", clients=CLIENTS, batch=batch, times=self._effort.fill_times)
                self._appended[peer.name] += filled.events

    def _read(self) -> Iterator[list[str]]:
        loads = self._in_turns("read", seconds=self._effort.seconds / 2)
        for peer, found in zip(self._peers, loads, strict=True):
            if any(load.events != self._appended[peer.name] for load in found):
                raise AssertionError(f"{peer.name}: read {found}, appended {self._appended[peer.name]}")
        yield _row("read the whole log, events/s", loads, _per_s)

    def _append(self, clients: int, batch: int, goal: Goal | None) -> Iterator[list[str]]:
        loads = self._in_turns("append", clients=clients, batch=batch, seconds=self._effort.seconds)
        self._count(loads)
        name = f"{clients} client{'s' if clients > 1 else ''}"
        name += f" x {batch} events" if batch > 1 else ""
        yield _row(f"{name}, appends/s", loads, _per_s, goal)
        yield _row("  p50 ms", loads, _p50_ms)
        yield _row("  p99 ms", loads, _p99_ms)

    def _wait(self) -> Iterator[list[str]]:
        loads = self._in_turns("wait", times=self._effort.waits)
        self._count(loads)
        yield _row("append to waiting reader, p50 ms", loads, _p50_ms)
        yield _row("  p99 ms", loads, _p99_ms)

    def _in_turns(self, task: str, **options: float) -> Loads:
        """Ours, theirs, ours, theirs: noise of the machine hits both."""
        ours, theirs = self._peers
        pairs = [(ours.load(task, **options), theirs.load(task, **options)) for _ in range(self._effort.rounds)]
        return [mine for mine, _ in pairs], [other for _, other in pairs]

    def _count(self, loads: Loads) -> None:
        for peer, found in zip(self._peers, loads, strict=True):
            self._appended[peer.name] += sum(load.events for load in found)


def _row(name: str, loads: Loads, measure: Callable[[Load], float], goal: Goal | None = None) -> list[str]:
    ours, theirs = (median(map(measure, found)) for found in loads)
    ratio = ours / theirs
    each = sorted(measure(mine) / measure(other) for mine, other in zip(*loads, strict=True))
    verdict = ("", "") if goal is None else (str(goal), goal.reached(ratio))
    return [name, number(ours), number(theirs), f"{ratio:.2f}", f"{each[0]:.2f}-{each[-1]:.2f}", *verdict]


_per_s = attrgetter("per_s")
_p50_ms = attrgetter("p50_ms")
_p99_ms = attrgetter("p99_ms")
