"""Appending: numbered by conditional write, exactly once, whole or not at all."""

import random

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput, Busy, ConditionFailed, KeyReused, Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import RECEIPT_S, AppendCondition, Receipt
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.services.log.appender import (
    CALMING_STEPS,
    DEADLINE_S,
    FIRST_PAUSE_S,
    LEAST_PART,
    LONGEST_PAUSE_S,
    Appender,
)
from tests.services.worlds import NOW, Failing, Interleaved, Overtaken, Recording, World, append, keys, no_match, text

NOW_S = NOW // 1_000_000


def test_a_request_becomes_the_next_session(log: SqliteLog, world: World) -> None:
    appended = world.appender(log).append(append("/1", "/2"))
    expected = Commit(1, 1, NOW, 2, 0, "ours", f"[{text('/1')},\n{text('/2')}]")
    assert (appended, list(log.read(1, 0))) == (Appended(expected), [expected])


def test_event_ids_rise_although_the_clock_stands_still_or_goes_back(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    written = [appender.append(append("/1", "/2")).commit]
    written.append(appender.append(append()).commit)
    world.now_ms -= 3_600_000
    written.append(appender.append(append()).commit)
    world.now_ms += 7_200_000
    written.append(appender.append(append()).commit)
    assert [(commit.session, commit.prev, commit.at) for commit in written] == [
        (1, 0, NOW),
        (2, NOW + 1, NOW + 2),
        (3, NOW + 2, NOW + 3),
        (4, NOW + 3, NOW + 3_600_000_000),
    ]


def test_a_group_is_written_at_once_each_request_its_own_session(database: Database, world: World) -> None:
    log = Recording(database)
    outcomes = world.appender(log).append_group(
        [append("/1", request_id="a"), append("/2", request_id="b"), append("/3", request_id="c", server=2)]
    )
    expected = [
        Commit(1, 1, NOW, 1, 0, "a", f"[{text('/1')}]"),
        Commit(1, 2, NOW + 1, 1, NOW, "b", f"[{text('/2')}]"),
        Commit(2, 1, NOW, 1, 0, "c", f"[{text('/3')}]"),
    ]
    assert outcomes == [Appended(commit) for commit in expected]
    assert log.attempts == [(expected, [], NOW_S)]


def test_a_writer_that_was_overtaken_takes_the_next_session(log: SqliteLog, world: World) -> None:
    ours, theirs = world.appender(log), world.appender(log)
    ours.append(append("/1"))
    theirs.append(append("/2", request_id="theirs"))
    assert ours.append(append("/3")).commit.session == 3
    assert keys(log) == [(1, "/1"), (2, "/2"), (3, "/3")]
    assert len(world.pauses) == 1
    assert 0 <= world.pauses[0] <= FIRST_PAUSE_S


def test_two_writers_in_turn_lose_nothing(log: SqliteLog, world: World) -> None:
    writers = [world.appender(log), world.appender(log)]
    for turn in range(20):
        writers[turn % 2].append(append(f"/{turn}", request_id=str(turn)))
    assert keys(log) == [(turn + 1, f"/{turn}") for turn in range(20)]


def test_a_group_that_was_overtaken_is_numbered_anew_as_a_whole(database: Database, world: World) -> None:
    plain = SqliteLog(database)
    log = Overtaken(database, lambda: world.appender(plain).append(append("/theirs", request_id="theirs")))
    outcomes = world.appender(log).append_group([append("/1", request_id="a"), append("/2", request_id="b")])
    assert keys(log) == [(1, "/theirs"), (2, "/1"), (3, "/2")]
    assert [outcome.commit.session for outcome in outcomes if isinstance(outcome, Appended)] == [2, 3]


def test_a_writer_that_is_always_overtaken_gives_up_at_the_deadline(database: Database, world: World) -> None:
    plain = SqliteLog(database)
    theirs = world.appender(plain)
    log = Overtaken(database, lambda: theirs.append(append("/theirs", request_id="theirs")), times=float("inf"))
    with pytest.raises(Busy, match="too many writers contend for the log; nothing was written"):
        world.appender(log).append(append("/ours"))
    assert DEADLINE_S < world.elapsed_s <= DEADLINE_S + LONGEST_PAUSE_S
    assert max(world.pauses) <= LONGEST_PAUSE_S
    assert {key for _, key in keys(plain)} == {"/theirs"}


class Highest(random.Random):
    """Always the longest pause that there may be."""

    def uniform(self, a: float, b: float) -> float:
        del a
        return b


def test_pauses_double_with_every_conflict_and_shrink_again_for_those_who_have_waited_long(
    database: Database, world: World
) -> None:
    theirs = world.appender(SqliteLog(database))
    log = Overtaken(database, lambda: theirs.append(append("/theirs", request_id="theirs")), times=float("inf"))
    ours = Appender(log, world.clock, world.pause, world.monotonic, chance=Highest())
    with pytest.raises(Busy):
        ours.append(append("/ours"))
    longest = world.pauses.index(max(world.pauses))
    assert world.pauses[:4] == pytest.approx([FIRST_PAUSE_S * 2**step for step in range(4)], rel=0.05)
    assert longest > 4
    assert world.pauses[longest:] == sorted(world.pauses[longest:], reverse=True)
    assert world.pauses[-1] == pytest.approx(LONGEST_PAUSE_S * LEAST_PART)


def test_a_request_after_one_that_met_a_crowd_does_not_begin_with_the_shortest_pause(
    database: Database, world: World
) -> None:
    theirs = world.appender(SqliteLog(database))
    log = Overtaken(database, lambda: theirs.append(append("/theirs", request_id="theirs")), times=5)
    ours = Appender(log, world.clock, world.pause, world.monotonic, chance=Highest())
    ours.append(append("/1"))
    begins = []
    for number in range(3):
        theirs.append(append("/theirs", request_id="theirs"))
        met = len(world.pauses)
        ours.append(append("/2", request_id=str(number)))
        begins += world.pauses[met:]
    assert begins == [FIRST_PAUSE_S * 2 ** (5 - CALMING_STEPS), FIRST_PAUSE_S, FIRST_PAUSE_S]


@pytest.mark.parametrize("writes", [True, False], ids=["after writing", "before writing"])
def test_without_an_answer_the_very_same_write_is_repeated(writes: bool, database: Database, world: World) -> None:
    log = Failing(database, times=2, writes=writes)
    appender = world.appender(log)
    appended = appender.append_group([append("/1", request_id="a", idempotency_key="k"), append("/2", request_id="b")])
    assert len(log.attempts) == 3
    assert log.attempts[0] == log.attempts[1] == log.attempts[2]
    assert keys(log) == [(1, "/1"), (2, "/2")]
    assert [outcome.commit for outcome in appended if isinstance(outcome, Appended)] == list(log.read(1, 0))
    assert appender.append(append("/3")).commit.session == 3


def test_a_write_that_was_not_done_and_then_overtaken_is_numbered_anew(database: Database, world: World) -> None:
    log = Failing(database, times=1, writes=False)

    def overtake(seconds: float) -> None:
        world.pause(seconds)
        if len(world.pauses) == 1:
            world.appender(SqliteLog(database)).append(append("/theirs", request_id="theirs"))

    ours = Appender(log, world.clock, overtake, world.monotonic)
    assert ours.append(append("/ours")).commit.session == 2
    assert keys(log) == [(1, "/theirs"), (2, "/ours")]


def test_without_an_answer_until_the_deadline_the_outcome_is_unknown(database: Database, world: World) -> None:
    log = Failing(database, times=float("inf"), writes=True)
    appender = world.appender(log)
    with pytest.raises(Unavailable, match="no answer"):
        appender.append(append("/1"))
    assert DEADLINE_S < world.elapsed_s <= DEADLINE_S + LONGEST_PAUSE_S
    assert keys(log) == [(1, "/1")]
    log.left = 0
    assert appender.append(append("/2")).commit.session == 2


def test_a_repeat_is_answered_with_the_first_commit(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    first = appender.append(append("/1", request_id="a", idempotency_key="k"))
    appender.append(append("/2"))
    again = appender.append(append("/1", request_id="b", idempotency_key="k"))
    assert (first.replayed, again) == (False, Appended(first.commit, replayed=True))
    assert keys(log) == [(1, "/1"), (2, "/2")]


def test_a_repeat_is_known_to_every_writer(log: SqliteLog, world: World) -> None:
    first = world.appender(log).append(append("/1", request_id="a", idempotency_key="k"))
    again = world.appender(log).append(append("/1", request_id="b", idempotency_key="k"))
    assert again == Appended(first.commit, replayed=True)


def test_the_same_key_with_another_request_is_refused(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1", idempotency_key="k"))
    with pytest.raises(KeyReused, match="Idempotency-Key 'k' was used for another request"):
        appender.append(append("/2", idempotency_key="k"))
    with pytest.raises(KeyReused):
        appender.append(append("/1", idempotency_key="k", condition=no_match("/9")))
    assert keys(log) == [(1, "/1")]


def test_the_same_key_twice_in_a_group_is_written_once(log: SqliteLog, world: World) -> None:
    outcomes = world.appender(log).append_group(
        [
            append("/1", request_id="a", idempotency_key="k"),
            append("/1", request_id="b", idempotency_key="k"),
            append("/2", request_id="c", idempotency_key="k"),
            append("/1", request_id="d", idempotency_key="k", server=2),
        ]
    )
    (first,), (other,) = log.read(1, 0), log.read(2, 0)
    assert [*outcomes[:2], outcomes[3]] == [Appended(first), Appended(first, replayed=True), Appended(other)]
    assert isinstance(outcomes[2], KeyReused)


def test_a_key_belongs_to_its_server(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1", idempotency_key="k"))
    assert not appender.append(append("/2", server=2, idempotency_key="k")).replayed


def test_a_key_is_remembered_for_a_day(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    first = appender.append(append("/1", request_id="a", idempotency_key="k"))
    assert log.receipt(1, "k", NOW_S) == Receipt(1, "k", append("/1").digest, 1, "a", expires_s=NOW_S + RECEIPT_S)
    world.now_ms += RECEIPT_S * 1000
    assert appender.append(append("/1", request_id="b", idempotency_key="k")) == first._replace(replayed=True)
    world.now_ms += 1000
    assert appender.append(append("/1", request_id="c", idempotency_key="k")).commit.session == 2


def test_of_two_writers_with_the_same_key_one_is_answered_by_the_other(database: Database, world: World) -> None:
    plain = SqliteLog(database)
    theirs = append("/1", request_id="theirs", idempotency_key="k")
    log = Overtaken(database, lambda: world.appender(plain).append(theirs))
    answer = world.appender(log).append(append("/1", request_id="ours", idempotency_key="k"))
    assert answer == Appended(next(plain.read(1, 0)), replayed=True)
    assert keys(plain) == [(1, "/1")]


def test_a_repeat_is_answered_although_its_own_events_break_its_condition(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    first = appender.append(append("/1", idempotency_key="k", condition=no_match("/1")))
    again = appender.append(append("/1", request_id="b", idempotency_key="k", condition=no_match("/1")))
    assert again == first._replace(replayed=True)


def test_a_repeat_is_answered_although_its_position_lies_in_the_future_of_nobody(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    seen = appender.append(append("/1")).commit.last
    first = appender.append(append("/2", idempotency_key="k", condition=no_match("/1", after=seen)))
    again = appender.append(append("/2", idempotency_key="k", condition=no_match("/1", after=seen)))
    assert again == first._replace(replayed=True)


def test_a_refused_request_leaves_its_key_free(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1"))
    with pytest.raises(ConditionFailed):
        appender.append(append("/1", idempotency_key="k", condition=no_match("/1")))
    assert not appender.append(append("/2", idempotency_key="k")).replayed


def test_a_condition_that_holds_lets_the_request_through(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1"))
    assert appender.append(append("/2", condition=no_match("/2"))).commit.session == 2


def test_a_condition_that_fails_names_the_event_and_writes_nothing(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1", "/2"))
    with pytest.raises(ConditionFailed, match=f"event {NOW + 1} matches the append condition") as refusal:
        appender.append(append("/2", condition=no_match("/2")))
    assert refusal.value.event_id == NOW + 1
    assert keys(log) == [(1, "/1"), (1, "/2")]


def test_a_condition_on_an_empty_log_holds(log: SqliteLog, world: World) -> None:
    everything = AppendCondition.model_validate({"failIfEventsMatch": {}})
    assert world.appender(log).append(append("/1", condition=everything)).commit.session == 1


@pytest.mark.parametrize(("back", "broken"), [(0, False), (1, False), (2, True), (3, True)])
def test_only_events_after_the_position_break_a_condition(
    back: int, broken: bool, log: SqliteLog, world: World
) -> None:
    appender = world.appender(log)
    last = appender.append(append("/0", "/1", "/2")).commit.last
    request = append("/3", condition=no_match("/1", after=last - back))
    if broken:
        with pytest.raises(ConditionFailed):
            appender.append(request)
    else:
        assert appender.append(request).commit.session == 2


def test_a_position_in_the_future_is_bad_input(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    last = appender.append(append("/1")).commit.last
    with pytest.raises(BadInput, match=f"after={last + 1} lies in the future: the last event is {last}"):
        appender.append(append("/2", condition=no_match("/2", after=last + 1)))
    assert keys(log) == [(1, "/1")]


def test_a_position_that_another_writer_reached_is_not_in_the_future(log: SqliteLog, world: World) -> None:
    ours, theirs = world.appender(log), world.appender(log)
    ours.append(append("/1"))
    last = theirs.append(append("/2", request_id="theirs")).commit.last
    assert ours.append(append("/3", condition=no_match("/2", after=last))).commit.session == 3


def test_what_another_writer_wrote_is_seen(log: SqliteLog, world: World) -> None:
    ours, theirs = world.appender(log), world.appender(log)
    ours.append(append("/1"))
    theirs.append(append("/2", request_id="theirs"))
    with pytest.raises(ConditionFailed):
        ours.append(append("/3", condition=no_match("/2")))


@pytest.mark.parametrize(("theirs", "written"), [("/2", False), ("/9", True)])
def test_what_comes_between_the_check_and_the_write_is_seen(
    theirs: str, written: bool, database: Database, world: World
) -> None:
    plain = SqliteLog(database)
    log = Overtaken(database, lambda: world.appender(plain).append(append(theirs, request_id="theirs")))
    outcomes = world.appender(log).append_group([append("/2", condition=no_match("/2"), checked=Head(1))])
    assert isinstance(outcomes[0], Appended) is written
    assert keys(plain) == [(1, theirs), *([(2, "/2")] if written else [])]


def test_what_comes_since_the_check_is_seen_when_writing(log: SqliteLog, world: World) -> None:
    ours, theirs = world.appender(log), world.appender(log)
    request = ours.checked(append("/2", condition=no_match("/2")))
    theirs.append(append("/2", request_id="theirs"))
    outcome = ours.append_group([request])[0]
    assert isinstance(outcome, ConditionFailed)
    assert outcome.event_id == NOW
    assert keys(log) == [(1, "/2")]


def test_within_a_group_conditions_see_the_requests_before_them(log: SqliteLog, world: World) -> None:
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


def test_another_thread_that_learns_of_a_new_head_hides_nothing_from_a_condition(
    database: Database, world: World
) -> None:
    """One appender serves all threads: what one of them learns must not make another skip its check."""
    plain = SqliteLog(database)
    log = Interleaved(database)
    shared = world.appender(log)
    shared.append(append("/1", request_id="first"))

    def meanwhile() -> None:
        last = world.appender(plain).append(append("/2", request_id="theirs")).commit.last
        shared.checked(append("/9", request_id="another thread", condition=no_match("/9", after=last)))

    log.other = meanwhile
    (outcome,) = shared.append_group([append("/2", condition=no_match("/2"), checked=Head(1))])
    assert isinstance(outcome, ConditionFailed)
    assert keys(plain) == [(1, "/1"), (2, "/2")]


def test_a_log_at_its_end_fails_only_its_own_requests(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    log.append([Commit(1, 1, 2**53 - 1, 1, 0, "r", f"[{text()}]")], [], NOW_S)
    full, other = appender.append_group([append("/1", request_id="a"), append("/1", request_id="b", server=2)])
    assert not isinstance(full, Appended)
    assert isinstance(other, Appended)
