"""What is measured of all peers, at each length of the log, and what it should come to."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from statistics import median

from benchmarks import alone, dynamodb_units, history, servers
from benchmarks.load import Load, Question, jobs_of
from benchmarks.results import Row, Table
from benchmarks.servers import Peer
from benchmarks.table import Goal

CLIENTS = 16
BATCH = 20
WIRE, IN_PROCESS = "over the wire", "in process"

_AHEAD = (Goal(1, of="hat-event"), Goal(1, of="eventsourcing"))
_SOONER = (Goal(1, at_most=True, of="hat-event"),)
_APPENDS: dict[tuple[int, int], Goal] = {
    (1, 1): Goal(1, of="UmaDB"),
    (CLIENTS, 1): Goal(0.6, of="UmaDB"),
    (CLIENTS, BATCH): Goal(1, of="UmaDB"),
}
"""Clients and events per append, and the goal beside UmaDB."""
_QUESTIONS: dict[Question, str] = {
    "key": "all events of one key",
    "latest": "the last event of a type",
    "type": "the one event of a rare type",
}
_PER_S, _P50_MS, _P99_MS = attrgetter("per_s"), attrgetter("p50_ms"), attrgetter("p99_ms")

Loads = dict[str, list[Load]]
"""What each peer's load found, one a round."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    rounds: int
    seconds: float
    asks: int
    waits: int


@dataclass(slots=True)
class Sides:
    """All peers with the same past; remembers how many events were appended to each."""

    wire: Sequence[Peer]
    in_process: Sequence[Peer]
    events: int
    effort: Effort
    _appended: dict[Path, int] = field(default_factory=dict)

    def reading(self) -> Iterator[Table]:
        """The whole log: as it comes, and with each event decoded."""
        for title, peers in self._ways():
            rows = [
                self._read("as it comes", "read", peers),
                self._read("each event decoded", "decode", peers),
            ]
            yield Table(f"the whole log, {title}", tuple(rows))

    def queries(self) -> Iterator[Table]:
        """Questions that an index may answer."""
        for title, peers in self._ways():
            yield Table(f"questions, {title}", tuple(self._asked(question, peers) for question in _QUESTIONS))

    def read_units(self) -> Iterator[Table]:
        """What Annals would read of DynamoDB."""
        yield dynamodb_units.at_length(self.in_process[0].directory)

    def alone(self) -> Iterator[Table]:
        """What only Annals is asked."""
        ours = self.wire[0]
        yield from alone.measured(ours, self.effort.asks)
        self._add(ours, self.effort.asks)

    def waiting(self) -> Iterator[Table]:
        """From an append to a reader that waits for it."""
        ours, *others = self.wire
        loads = self._in_turns([ours, servers.streamed(ours), *others], "wait", times=self.effort.waits)
        self._count([ours, servers.streamed(ours), *others], loads)
        goals = (Goal(2, at_most=True, of="UmaDB"),)
        rows = [_row("p50", "ms", loads, _P50_MS, goals), _row("p99", "ms", loads, _P99_MS)]
        yield Table("append to a waiting reader", tuple(rows))

    def appends(self) -> Iterator[Table]:
        """Durable appends, but for hat-event's."""
        for title, peers in self._ways():
            rows = [
                row for (clients, batch), goal in _APPENDS.items() for row in self._append(peers, clients, batch, goal)
            ]
            yield Table(f"appends, {title}", tuple(rows))

    def verify(self) -> str:
        """Look at every event of each peer; raises unless it has the past and what was appended, in this order."""
        found = []
        for peer in (*self.wire, *self.in_process):
            load = peer.load("verify", events=self.events, appended=self._appended.get(peer.directory, 0))
            found.append(f"{load.events:,} in {peer.name}{' (in process)' if peer in self.in_process else ''}")
        return ", ".join(found)

    def _ways(self) -> tuple[tuple[str, Sequence[Peer]], ...]:
        return (WIRE, self.wire), (IN_PROCESS, self.in_process)

    def _read(self, name: str, task: str, peers: Sequence[Peer]) -> Row:
        loads = self._in_turns(peers, task, seconds=self.effort.seconds / 2)
        for peer, found in loads.items():
            # Who did not come to the end in time has read none to the end.
            if not {load.events for load in found} <= {self.events, 0}:
                raise AssertionError(f"{peer}: read {found} of {self.events} events")
        return _row(name, "events/s", loads, _PER_S, (Goal(0.5, of="UmaDB"), *_AHEAD))

    def _asked(self, question: Question, peers: Sequence[Peer]) -> Row:
        # The recorder of eventsourcing does not answer what is the last of a type.
        able = [peer for peer in peers if peer.name != "eventsourcing" or question != "latest"]
        options = {"question": question, "times": self.effort.asks, "seconds": self.effort.seconds}
        loads = self._in_turns(able, "ask", **options)
        if len({load.events for found in loads.values() for load in found}) != 1:
            raise AssertionError(f"{question}: the peers do not answer the same: {loads}")
        return _row(_QUESTIONS[question], "p50 ms", loads, _P50_MS, (Goal(2, at_most=True, of="UmaDB"), *_SOONER))

    def _append(self, peers: Sequence[Peer], clients: int, batch: int, goal: Goal) -> Iterator[Row]:
        loads = self._in_turns(peers, "append", clients=clients, batch=batch, seconds=self.effort.seconds)
        self._count(peers, loads)
        name = f"{clients} client{'s' if clients > 1 else ''}"
        name += f", {batch} events each" if batch > 1 else ""
        yield _row(name, "events/s", loads, lambda load: load.per_s * batch, (goal, *_AHEAD))
        yield _row(f"{name}: p50", "ms", loads, _P50_MS)
        yield _row(f"{name}: p99", "ms", loads, _P99_MS)

    def _in_turns(self, peers: Sequence[Peer], task: str, **options: float | str) -> Loads:
        """One after the other, round after round: noise of the machine hits all."""
        found: Loads = {peer.name: [] for peer in peers}
        for _ in range(self.effort.rounds):
            for peer in peers:
                found[peer.name].append(peer.load(task, events=self.events, **options))
        return found

    def _count(self, peers: Sequence[Peer], loads: Loads) -> None:
        for peer in peers:
            self._add(peer, sum(load.events for load in loads[peer.name]))

    def _add(self, peer: Peer, events: int) -> None:
        self._appended[peer.directory] = self._appended.get(peer.directory, 0) + events


@contextmanager
def sides(directory: Path, events: int, effort: Effort) -> Iterator[Sides]:
    """All peers, with so many events each."""
    # Copied while nobody writes to it.
    history.store(directory / "service", events, jobs_of(events))
    shutil.copytree(directory / "service", directory / "annals")
    with (
        servers.annals(directory / "annals") as ours,
        servers.umadb(directory / "umadb", events) as umadb,
        servers.hat(directory / "hat", events) as hat,
        servers.eventsourcing(directory / "eventsourcing", events) as eventsourcing,
    ):
        service = servers.service(directory / "service")
        yield Sides((ours, umadb, hat), (service, eventsourcing), events, effort)


def _row(name: str, unit: str, loads: Loads, measure: Callable[[Load], float], goals: tuple[Goal, ...] = ()) -> Row:
    each = {peer: sorted(map(measure, found)) for peer, found in loads.items()}
    return Row(
        name,
        unit,
        {peer: median(found) for peer, found in each.items()},
        tuple(goal for goal in goals if goal.of in each),
        {peer: (found[0], found[-1]) for peer, found in each.items()},
    )
