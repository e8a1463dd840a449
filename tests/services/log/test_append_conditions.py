"""Append conditions: a request is refused if an event matches that its publisher has not seen."""

import threading
from collections.abc import Iterator

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import (
    BadInput,
    Busy,
    ConditionFailed,
)
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.services.log.appender import CONDITION_TIMEOUT_S
from chalicelib.services.log.group_commit import GroupCommit
from chalicelib.services.log.parallel_group_commit import ParallelGroupCommit
from tests.services.fakes import (
    NOW,
    InterleavedLog,
    OvertakenLog,
    World,
    append,
    keys,
    no_match,
)
from tests.services.log.test_group_commit import TIMEOUT_S, ignore_commit


def test_condition_without_match_is_written(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1"))
    assert appender.append(append("/2", condition=no_match("/2"))).commit.session == 2


def test_condition_with_match_names_event_and_writes_nothing(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1", "/2"))
    with pytest.raises(ConditionFailed, match=f"event {NOW + 1} matches the append condition") as refusal:
        appender.append(append("/2", condition=no_match("/2")))
    assert refusal.value.event_id == NOW + 1
    assert keys(log) == [(1, "/1"), (1, "/2")]


def test_condition_on_empty_log_is_written(log: SqliteLog, world: World) -> None:
    everything = AppendCondition.model_validate({"failIfEventsMatch": {}})
    assert world.appender(log).append(append("/1", condition=everything)).commit.session == 1


@pytest.mark.parametrize(("back", "broken"), [(0, False), (1, False), (2, True), (3, True)])
def test_condition_ignores_events_up_to_position(back: int, broken: bool, log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    last = appender.append(append("/0", "/1", "/2")).commit.last_event_id
    request = append("/3", condition=no_match("/1", after=last - back))
    if broken:
        with pytest.raises(ConditionFailed):
            appender.append(request)
    else:
        assert appender.append(request).commit.session == 2


def test_condition_position_beyond_end_is_bad_input(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    last = appender.append(append("/1")).commit.last_event_id
    with pytest.raises(BadInput, match=f"after={last + 1} is beyond the end of the log: the last event is {last}"):
        appender.append(append("/2", condition=no_match("/2", after=last + 1)))
    assert keys(log) == [(1, "/1")]


def test_condition_position_of_other_writer_is_accepted(log: SqliteLog, world: World) -> None:
    ours, theirs = world.appender(log), world.appender(log)
    ours.append(append("/1"))
    last = theirs.append(append("/2", request_id="theirs")).commit.last_event_id
    assert ours.append(append("/3", condition=no_match("/2", after=last))).commit.session == 3


def test_condition_matches_event_of_other_writer(log: SqliteLog, world: World) -> None:
    ours, theirs = world.appender(log), world.appender(log)
    ours.append(append("/1"))
    theirs.append(append("/2", request_id="theirs"))
    with pytest.raises(ConditionFailed):
        ours.append(append("/3", condition=no_match("/2")))


@pytest.mark.parametrize(("theirs", "written"), [("/2", False), ("/9", True)])
def test_condition_matches_event_written_before_own_write(
    theirs: str, written: bool, database: Database, world: World
) -> None:
    plain = SqliteLog(database)
    log = OvertakenLog(database, lambda: world.appender(plain).append(append(theirs, request_id="theirs")))
    outcomes = world.appender(log).append_group([append("/2", condition=no_match("/2"), verified_head=Head(1))])
    assert isinstance(outcomes[0], Appended) is written
    assert keys(plain) == [(1, theirs), *([(2, "/2")] if written else [])]


def test_condition_matches_event_written_since_precheck(log: SqliteLog, world: World) -> None:
    ours, theirs = world.appender(log), world.appender(log)
    request = ours.precheck(append("/2", condition=no_match("/2")))
    theirs.append(append("/2", request_id="theirs"))
    outcome = ours.append_group([request])[0]
    assert isinstance(outcome, ConditionFailed)
    assert outcome.event_id == NOW
    assert keys(log) == [(1, "/2")]


def test_condition_in_group_matches_earlier_requests(log: SqliteLog, world: World) -> None:
    outcomes = world.appender(log).append_group(
        [
            append("/1", request_id="a", condition=no_match("/1")),
            append("/1", request_id="b", condition=no_match("/1")),
            append("/2", request_id="c", condition=no_match("/2")),
            append("/1", request_id="d", condition=no_match("/1"), server=2),
        ]
    )
    assert [type(outcome) for outcome in outcomes] == [Appended, ConditionFailed, Appended, Appended]
    assert (keys(log), keys(log, server=2)) == ([(1, "/1"), (2, "/2")], [(1, "/1")])


def test_condition_is_checked_when_other_thread_updates_head(database: Database, world: World) -> None:
    """All threads share one appender. A head that one of them updates must not make another skip its check."""
    plain = SqliteLog(database)
    log = InterleavedLog(database)
    shared = world.appender(log)
    shared.append(append("/1", request_id="first"))

    def run_other_thread() -> None:
        last = world.appender(plain).append(append("/2", request_id="theirs")).commit.last_event_id
        shared.precheck(append("/9", request_id="another thread", condition=no_match("/9", after=last)))

    log.other = run_other_thread
    (outcome,) = shared.append_group([append("/2", condition=no_match("/2"), verified_head=Head(1))])
    assert isinstance(outcome, ConditionFailed)
    assert keys(plain) == [(1, "/1"), (2, "/2")]


class SlowReads(SqliteLog):
    """Each commit that is read takes a second, once the gate is open."""

    def __init__(self, database: Database, world: World) -> None:
        super().__init__(database)
        self._world = world
        self.gate = threading.Event()
        self.reads = 0

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        assert self.gate.wait(TIMEOUT_S)
        for commit in super().read(server, after, limit):
            self.reads += 1
            self._world.elapsed_s += 1.0
            yield commit


def fill(log: SqliteLog, world: World, commits: int) -> int:
    """Returns the EventId of the last event."""
    appender = world.appender(log)
    return [appender.append(append("/1", request_id=f"{n}")).commit for n in range(commits)][-1].last_event_id


def test_condition_that_takes_too_long_is_busy(database: Database, world: World) -> None:
    last = fill(SqliteLog(database), world, 2 * int(CONDITION_TIMEOUT_S))
    log = SlowReads(database, world)
    log.gate.set()
    with pytest.raises(Busy, match="Nothing was written"):
        world.appender(log).append(append("/2", condition=no_match("/2")))
    assert log.reads <= CONDITION_TIMEOUT_S + 2
    later = append("/2", condition=no_match("/2", after=last))
    assert world.appender(log).append(later).commit.session == 2 * int(CONDITION_TIMEOUT_S) + 1


@pytest.mark.parametrize("group_commit", [GroupCommit, ParallelGroupCommit])
def test_condition_that_waited_too_long_for_a_thread_is_busy(
    group_commit: type[GroupCommit | ParallelGroupCommit],
    database: Database,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All threads check long conditions. Those behind them are refused in time, without a search."""
    for module in ("group_commit", "parallel_group_commit"):
        monkeypatch.setattr(f"chalicelib.services.log.{module}.CONDITION_THREADS", 1)
    fill(SqliteLog(database), world, 2 * int(CONDITION_TIMEOUT_S))
    log = SlowReads(database, world)
    appends = group_commit(world.appender(log), ignore_commit)
    submitted = [appends.submit(append("/2", request_id=f"c{n}", condition=no_match("/2"))) for n in range(3)]
    log.gate.set()
    for each in submitted:
        with pytest.raises(Busy):
            each.result(TIMEOUT_S)
    assert log.reads <= CONDITION_TIMEOUT_S + 2
