"""Measurements of all peers at one log size, with the goals for Annals."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from statistics import median

from benchmarks.annals import long_log
from benchmarks.aws import dynamodb_units
from benchmarks.load import annals_store
from benchmarks.load.generator import Load, QueryKind, job_count
from benchmarks.peers import servers
from benchmarks.peers.servers import Peer
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal

CLIENTS = 16
BATCH = 20
OVER_THE_WIRE, IN_PROCESS = "over the wire", "in process"

_FASTER_THAN = (Goal(1, of="hat-event"), Goal(1, of="eventsourcing"))
_SOONER_THAN = (Goal(1, at_most=True, of="hat-event"),)
_APPENDS: dict[tuple[int, int], Goal] = {
    (1, 1): Goal(1, of="UmaDB"),
    (CLIENTS, 1): Goal(0.6, of="UmaDB"),
    (CLIENTS, BATCH): Goal(1, of="UmaDB"),
}
"""Clients and events per append: the goal relative to UmaDB."""
_QUERY_TITLES: dict[QueryKind, str] = {
    "key": "all events of one key",
    "latest": "the last event of a type",
    "type": "the one event of a rare type",
}
_PER_S, _P50_MS, _P99_MS = attrgetter("per_s"), attrgetter("p50_ms"), attrgetter("p99_ms")

Loads = dict[str, list[Load]]
"""Peer: the result of each round."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often to measure."""

    rounds: int
    seconds: float
    queries: int
    waits: int


@dataclass(slots=True)
class Comparison:
    """All peers with the same dataset. Counts the events appended to each."""

    wire: Sequence[Peer]
    in_process: Sequence[Peer]
    events: int
    effort: Effort
    _appended: dict[Path, int] = field(default_factory=dict)

    def reading(self) -> Iterator[Table]:
        """Read the whole log, without and with decoding of events."""
        for title, peers in self._modes():
            rows = [
                self._read_row("as it comes", "read", peers),
                self._read_row("each event decoded", "decode", peers),
            ]
            yield Table(f"the whole log, {title}", tuple(rows))

    def queries(self) -> Iterator[Table]:
        """Queries that an index can answer."""
        for title, peers in self._modes():
            yield Table(f"questions, {title}", tuple(self._query_row(kind, peers) for kind in _QUERY_TITLES))

    def read_units(self) -> Iterator[Table]:
        """Read units that Annals would consume on DynamoDB."""
        yield dynamodb_units.read_unit_table(self.in_process[0].directory)

    def alone(self) -> Iterator[Table]:
        """Queries and long polls that only Annals offers."""
        ours = self.wire[0]
        yield from long_log.measure(ours, self.effort.queries)
        self._add_appended(ours, self.effort.queries)

    def waiting(self) -> Iterator[Table]:
        """Latency from an append to a waiting reader."""
        ours, *others = self.wire
        loads = self._run_rounds([ours, servers.with_stream(ours), *others], "wait", times=self.effort.waits)
        self._count_appended([ours, servers.with_stream(ours), *others], loads)
        goals = (Goal(2, at_most=True, of="UmaDB"),)
        rows = [_row("p50", "ms", loads, _P50_MS, goals), _row("p99", "ms", loads, _P99_MS)]
        yield Table("append to a waiting reader", tuple(rows))

    def appends(self) -> Iterator[Table]:
        """Appends. They are durable, except those of hat-event."""
        for title, peers in self._modes():
            rows = [
                row
                for (clients, batch), goal in _APPENDS.items()
                for row in self._append_rows(peers, clients, batch, goal)
            ]
            yield Table(f"appends, {title}", tuple(rows))

    def verify(self) -> str:
        """Check that each peer holds exactly the dataset and the appended events, in order. Raises otherwise."""
        summaries = []
        for peer in (*self.wire, *self.in_process):
            load = peer.load("verify", events=self.events, appended=self._appended.get(peer.directory, 0))
            summaries.append(f"{load.events:,} in {peer.name}{' (in process)' if peer in self.in_process else ''}")
        return ", ".join(summaries)

    def _modes(self) -> tuple[tuple[str, Sequence[Peer]], ...]:
        return (OVER_THE_WIRE, self.wire), (IN_PROCESS, self.in_process)

    def _read_row(self, name: str, task: str, peers: Sequence[Peer]) -> Row:
        loads = self._run_rounds(peers, task, seconds=self.effort.seconds / 2)
        for peer, rounds in loads.items():
            # 0 means that no pass was completed in time.
            if not {load.events for load in rounds} <= {self.events, 0}:
                raise AssertionError(f"{peer}: read {rounds} of {self.events} events")
        return _row(name, "events/s", loads, _PER_S, (Goal(0.5, of="UmaDB"), *_FASTER_THAN))

    def _query_row(self, kind: QueryKind, peers: Sequence[Peer]) -> Row:
        # The recorder of eventsourcing has no query for the last event of a type.
        able = [peer for peer in peers if peer.name != "eventsourcing" or kind != "latest"]
        options = {"kind": kind, "times": self.effort.queries, "seconds": self.effort.seconds}
        loads = self._run_rounds(able, "query", **options)
        if len({load.events for rounds in loads.values() for load in rounds}) != 1:
            raise AssertionError(f"{kind}: the peers return different numbers of events: {loads}")
        return _row(_QUERY_TITLES[kind], "p50 ms", loads, _P50_MS, (Goal(2, at_most=True, of="UmaDB"), *_SOONER_THAN))

    def _append_rows(self, peers: Sequence[Peer], clients: int, batch: int, goal: Goal) -> Iterator[Row]:
        loads = self._run_rounds(peers, "append", clients=clients, batch=batch, seconds=self.effort.seconds)
        self._count_appended(peers, loads)
        name = f"{clients} client{'s' if clients > 1 else ''}"
        name += f", {batch} events each" if batch > 1 else ""
        yield _row(name, "events/s", loads, lambda load: load.per_s * batch, (goal, *_FASTER_THAN))
        yield _row(f"{name}: p50", "ms", loads, _P50_MS)
        yield _row(f"{name}: p99", "ms", loads, _P99_MS)

    def _run_rounds(self, peers: Sequence[Peer], task: str, **options: float | str) -> Loads:
        """Measure the peers in turn in each round, so that noise of the machine affects all of them."""
        loads: Loads = {peer.name: [] for peer in peers}
        for _ in range(self.effort.rounds):
            for peer in peers:
                loads[peer.name].append(peer.load(task, events=self.events, **options))
        return loads

    def _count_appended(self, peers: Sequence[Peer], loads: Loads) -> None:
        for peer in peers:
            self._add_appended(peer, sum(load.events for load in loads[peer.name]))

    def _add_appended(self, peer: Peer, events: int) -> None:
        self._appended[peer.directory] = self._appended.get(peer.directory, 0) + events


@contextmanager
def comparison(directory: Path, events: int, effort: Effort) -> Iterator[Comparison]:
    """Start all peers with `events` events each."""
    # Copied before the server starts to write to it.
    annals_store.store(directory / "service", events, job_count(events))
    shutil.copytree(directory / "service", directory / "annals")
    with (
        servers.annals(directory / "annals") as ours,
        servers.umadb(directory / "umadb", events) as umadb,
        servers.hat(directory / "hat", events) as hat,
        servers.eventsourcing(directory / "eventsourcing", events) as eventsourcing,
    ):
        service = servers.service(directory / "service")
        yield Comparison((ours, umadb, hat), (service, eventsourcing), events, effort)


def _row(name: str, unit: str, loads: Loads, measure: Callable[[Load], float], goals: tuple[Goal, ...] = ()) -> Row:
    values = {peer: sorted(map(measure, rounds)) for peer, rounds in loads.items()}
    return Row(
        name,
        unit,
        {peer: median(rounds) for peer, rounds in values.items()},
        tuple(goal for goal in goals if goal.of in values),
        {peer: (rounds[0], rounds[-1]) for peer, rounds in values.items()},
    )
