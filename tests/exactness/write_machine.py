"""The writing half of the state machine: appends, projections, crashes and rebuilds at random."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, cycle

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import PROJECTOR
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import catch_up, run_once
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.tail_cache import TailCache
from tests.exactness import strategies
from tests.exactness.model import LogModel
from tests.exactness.stores import (
    CallOnce,
    CountingLog,
    Crash,
    Hook,
    InterceptedViews,
    NoCheckpointViews,
    RecordingViews,
    do_nothing,
)
from tests.services.fakes import World

FAR_US = 10**9


@dataclass
class Store:
    """The stores shared by all runs of the machine. Each run uses new servers."""

    name: str
    log: Log
    views: Views
    servers: Iterator[int]
    paths: Counter[str]
    """Number of times each path was taken."""


@dataclass(frozen=True)
class Race:
    """An action of another process at the n-th use of a store by a reader."""

    use_number: int
    action: str
    events: Sequence[NewEvent]


def _progress(done: int, all_: int) -> None:
    del done, all_


class FakeNotifier:
    """A notifier that calls `hook` while a reader waits."""

    def __init__(self, world: World, hook: Hook) -> None:
        self._world = world
        self._hook = hook

    def wait(self, head: Head, selection: Selection, timeout_s: float, attempt: int) -> Head | None:
        del selection, attempt
        self._hook()
        self._world.elapsed_s += min(timeout_s, 0.4)
        return head

    def close(self) -> None:
        """Nothing to release."""


position_numbers = st.integers(0, 10_000)
"""Numbers of positions in a log, see `_position`."""
log_indexes = st.sampled_from([0, 0, 0, 1])
"""Index of a log: mostly the first, so that it gets long."""
run_limits = st.integers(1, 6)
use_numbers = st.integers(1, 25)
races = st.none() | st.builds(
    Race, st.integers(1, 12), st.sampled_from(["append", "project", "catch up", "rebuild"]), strategies.commit_events
)
clock_steps_ms = st.sampled_from([0, 0, 1, 900, 20_000, 60_000, 200_000])
limits = st.none() | st.sampled_from([1, 2, 3, 7, 50, -1, -2, -3, -50])


class WriteMachine(RuleBasedStateMachine):
    """Two logs, their views, and models of the logs."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.log, self.views, self.paths = store.log, store.views, store.paths
        self.world = World()
        self.appender = self.world.appender(self.log)
        self.models = [LogModel(next(store.servers)), LogModel(next(store.servers))]
        self.requests = count()
        self._hook: Hook = do_nothing
        self._readers = cycle([self._new_reader(), self._new_reader(), None])
        """Readers that remember what they have read. None: a new process."""
        self.collections = cycle(vocabularies.collections())
        self.retentions_by_count = {
            events: Retention(self.log, self.world.clock, events=events) for events in (0, 1, 7, 30)
        }

    @initialize(
        commits=st.lists(strategies.commit_events, min_size=2, max_size=4),
        max_commits=run_limits,
        write_number=use_numbers,
    )
    def set_up(self, commits: list[list[NewEvent]], max_commits: int, write_number: int) -> None:
        """Fill a log until sessions are archived, and let a projector crash."""
        self.append_many(step_ms=20_000, commits=commits, times=3)
        self.project(index=0, max_commits=6)
        self.project_and_crash(index=0, max_commits=max_commits, write_number=write_number)

    @rule(index=log_indexes, step_ms=clock_steps_ms, events=strategies.commit_events)
    def append(self, index: int, step_ms: int, events: list[NewEvent]) -> None:
        self.world.now_ms += step_ms
        self._append(self.models[index], events)

    @rule(step_ms=clock_steps_ms, commits=st.lists(strategies.commit_events, min_size=2, max_size=4), times=run_limits)
    def append_many(self, step_ms: int, commits: list[list[NewEvent]], times: int) -> None:
        for events in commits * times:
            self.world.now_ms += step_ms
            self._append(self.models[0], events)

    @rule(index=log_indexes, max_commits=run_limits)
    def project(self, index: int, max_commits: int) -> None:
        run_once(
            projector(self.views, clock=self.world.clock), self.models[index].server, self.log, self.views, max_commits
        )

    @rule(index=log_indexes, max_commits=run_limits, write_number=use_numbers)
    def project_and_crash(self, index: int, max_commits: int, write_number: int) -> None:
        crashing_views = InterceptedViews(self.views, self.paths, CallOnce(write_number, self._crash))
        try:
            run_once(
                projector(crashing_views, clock=self.world.clock),
                self.models[index].server,
                self.log,
                crashing_views,
                max_commits,
            )
        except Crash:
            self.paths["crashed"] += 1

    @rule(index=log_indexes, max_commits=run_limits)
    def project_without_checkpoint(self, index: int, max_commits: int) -> None:
        views = NoCheckpointViews(self.views)
        with suppress(Crash):
            run_once(projector(views, clock=self.world.clock), self.models[index].server, self.log, views, max_commits)

    @rule(
        index=log_indexes,
        max_commits=run_limits,
        write_number=use_numbers,
        other=run_limits,
        crash=st.none() | use_numbers,
        events=strategies.commit_events,
    )
    def project_and_be_overtaken(
        self, index: int, max_commits: int, write_number: int, other: int, crash: int | None, events: list[NewEvent]
    ) -> None:
        """Another projector gets further, less far, or crashes."""
        log_model = self.models[index]

        def overtake() -> None:
            self._append(log_model, events)
            if crash is None:
                self.project(index=index, max_commits=other)
            else:
                self.project_and_crash(index=index, max_commits=other, write_number=crash)

        overtaken_views = InterceptedViews(self.views, self.paths, CallOnce(write_number, overtake))
        run_once(
            projector(overtaken_views, clock=self.world.clock), log_model.server, self.log, overtaken_views, max_commits
        )

    @rule(
        index=log_indexes,
        write_number=use_numbers,
        action=st.sampled_from(["nothing", "crash", "append", "project", "catch up", "rebuild"]),
    )
    def rebuild(self, index: int, write_number: int, action: str) -> None:
        log_model = self.models[index]
        event = NewEvent(type=("rare",), key="k")
        hook = self._crash if action == "crash" else lambda: self._interfere(log_model, action, [event])
        views = InterceptedViews(self.views, self.paths, CallOnce(write_number, hook))
        try:
            rebuild(log_model.server, self.log, views, _progress, clock=self.world.clock)
            self.paths["rebuilt"] += 1
        except Crash:
            self.paths["rebuild crashed"] += 1

    def _append(self, log_model: LogModel, events: Sequence[NewEvent]) -> None:
        appended = self.appender.append(
            Append(log_model.server, encode_within_limits(events), f"request {next(self.requests)}")
        )
        log_model.add(appended.commit)

    def _crash(self) -> None:
        raise Crash

    def _interfere(self, log_model: LogModel, action: str, events: Sequence[NewEvent]) -> None:
        if action in ("append", "catch up"):
            self._append(log_model, events)
        if action == "project":
            run_once(projector(self.views, clock=self.world.clock), log_model.server, self.log, self.views, 2)
        if action == "catch up":
            catch_up(projector(self.views, clock=self.world.clock), log_model.server, self.log, self.views)
        if action == "rebuild":
            rebuild(log_model.server, self.log, self.views, _progress, clock=self.world.clock)

    def _reader(self, log_model: LogModel, race: Race | None = None) -> LogReader:
        def hook() -> None:
            assert race is not None
            self.paths[f"raced by {race.action}"] += 1
            self._interfere(log_model, race.action, race.events)

        self._hook = CallOnce(race.use_number if race else 0, hook)
        return next(self._readers) or self._new_reader()

    def _new_reader(self) -> LogReader:
        def call_hook() -> None:
            self._hook()

        log, views = CountingLog(self.log, call_hook), RecordingViews(self.views, self.paths, call_hook)
        return LogReader(log, views, tails=TailCache(log, views, clock=self.world.clock))

    def _monotonic(self) -> float:
        return self.world.elapsed_s

    def _record_lag(self, log_model: LogModel) -> None:
        checkpoint = load_checkpoint(PROJECTOR, log_model.server, self.views).head.session
        self.paths["tail used"] += 0 < checkpoint < len(log_model.commits)

    def _position(self, log_model: LogModel, position_number: int) -> int:
        """An EventId before, within, at the end of, or between commits, or beyond all of them."""
        ids, end = [event.event_id for event in log_model.events], log_model.last_event_id
        candidates = [
            0,
            end,
            end + 1,
            end + FAR_US,
            *ids,
            *(event_id - 1 for event_id in ids),
            *(event_id + 1 for event_id in ids),
        ]
        return candidates[position_number % len(candidates)]

    def _object(self, log_model: LogModel, object_number: int) -> ObjectRef:
        """An object of the log, or one that does not exist."""
        refs = {ref for event in log_model.events for ref in vocabularies.affected_objects(event.fields)}
        candidates = [*sorted(refs), ObjectRef("order", "/none,1")]
        return candidates[object_number % len(candidates)]

    def _time(self, log_model: LogModel, position_number: int) -> int:
        """The time of a commit, or one microsecond before or after it."""
        times = [commit.at_us + step for commit in log_model.commits for step in (0, -1, 1)]
        return times[position_number % len(times)] if times else 0

    def _event_position(self, log_models: Sequence[LogModel], position_number: int | None) -> Id | None:
        """The id of an event, which may not exist."""
        if position_number is None:
            return None
        server = log_models[0].server
        ids = [Id(server, 0, 0), Id(server, 1, 77), *(event.id for each in log_models for event in each.events)]
        return ids[position_number % len(ids)]

    def _retention(self, log_model: LogModel, max_events: int, age_s: int | None) -> tuple[Retention, int]:
        """Retention by age or by count, and the last EventId that expires."""
        if age_s is None:
            return self.retentions_by_count[max_events], log_model.last_expired_by_count(max_events)
        oldest_us = self.world.now_ms * 1000 - age_s * 1_000_000
        return Retention(self.log, self.world.clock, age_s=age_s), log_model.last_expired_by_age(oldest_us)
