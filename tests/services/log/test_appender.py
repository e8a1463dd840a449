"""The appender numbers events by conditional writes: exactly once, completely or not at all."""

import random
from collections.abc import Sequence

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import (
    AnnalsError,
    Busy,
    ConditionFailed,
    KeyReused,
    LogBroken,
    SessionTaken,
    Unavailable,
    Unwritable,
)
from chalicelib.domain.log.append import RECEIPT_TTL_S, Receipt
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.services.log.appender import (
    APPEND_TIMEOUT_S,
    BACKOFF,
    CONTENTION_DECAY,
    MIN_BACKOFF_FACTOR,
    Appender,
)
from tests.services.fakes import (
    NOW,
    FailingLog,
    OvertakenLog,
    RecordingLog,
    World,
    append,
    keys,
    no_match,
    text,
)

NOW_S = NOW // 1_000_000


def test_append_writes_next_session(log: SqliteLog, world: World) -> None:
    appended = world.appender(log).append(append("/1", "/2"))
    expected = Commit(1, 1, NOW, 2, 0, "ours", f"[{text('/1')},\n{text('/2')}]", 0)
    assert (appended, list(log.read(1, 0))) == (Appended(expected), [expected])


def test_event_ids_increase_when_clock_stops_or_goes_back(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    written = [appender.append(append("/1", "/2")).commit]
    written.append(appender.append(append()).commit)
    world.now_ms -= 3_600_000
    written.append(appender.append(append()).commit)
    world.now_ms += 7_200_000
    written.append(appender.append(append()).commit)
    assert [(commit.session, commit.previous_event_id, commit.at_us) for commit in written] == [
        (1, 0, NOW),
        (2, NOW + 1, NOW + 2),
        (3, NOW + 2, NOW + 3),
        (4, NOW + 3, NOW + 3_600_000_000),
    ]


def test_append_group_writes_one_session_per_request(database: Database, world: World) -> None:
    log = RecordingLog(database)
    outcomes = world.appender(log).append_group(
        [append("/1", request_id="a"), append("/2", request_id="b"), append("/3", request_id="c", server=2)]
    )
    expected = [
        Commit(1, 1, NOW, 1, 0, "a", f"[{text('/1')}]", 0),
        Commit(1, 2, NOW + 1, 1, NOW, "b", f"[{text('/2')}]", 1),
        Commit(2, 1, NOW, 1, 0, "c", f"[{text('/3')}]", 0),
    ]
    assert outcomes == [Appended(commit) for commit in expected]
    assert log.attempts == [expected]


def test_append_group_with_damaged_log_writes_the_others(database: Database, world: World) -> None:
    log = SqliteLog(database)
    world.appender(log).append(append("/1", server=2))
    database.write("UPDATE log SET body = '[]'", ())
    outcomes = world.appender(log).append_group([append("/2", request_id="b"), append("/3", request_id="c", server=2)])
    assert isinstance(outcomes[0], Appended)
    assert isinstance(outcomes[1], LogBroken)
    assert keys(log) == [(1, "/2")]


def test_append_after_conflict_takes_next_session(log: SqliteLog, world: World) -> None:
    ours, theirs = world.appender(log), world.appender(log)
    ours.append(append("/1"))
    theirs.append(append("/2", request_id="theirs"))
    assert ours.append(append("/3")).commit.session == 3
    assert keys(log) == [(1, "/1"), (2, "/2"), (3, "/3")]
    assert len(world.pauses) == 1
    assert 0 <= world.pauses[0] <= BACKOFF.initial_s


def test_alternating_writers_lose_no_event(log: SqliteLog, world: World) -> None:
    writers = [world.appender(log), world.appender(log)]
    for turn in range(20):
        writers[turn % 2].append(append(f"/{turn}", request_id=str(turn)))
    assert keys(log) == [(turn + 1, f"/{turn}") for turn in range(20)]


def test_append_group_after_conflict_renumbers_all_requests(database: Database, world: World) -> None:
    plain = SqliteLog(database)
    log = OvertakenLog(database, lambda: world.appender(plain).append(append("/theirs", request_id="theirs")))
    outcomes = world.appender(log).append_group([append("/1", request_id="a"), append("/2", request_id="b")])
    assert keys(log) == [(1, "/theirs"), (2, "/1"), (3, "/2")]
    assert [outcome.commit.session for outcome in outcomes if isinstance(outcome, Appended)] == [2, 3]


def test_append_with_endless_conflicts_raises_busy_at_deadline(database: Database, world: World) -> None:
    plain = SqliteLog(database)
    theirs = world.appender(plain)
    log = OvertakenLog(database, lambda: theirs.append(append("/theirs", request_id="theirs")), times=float("inf"))
    with pytest.raises(Busy, match="too many writers contend for the log; nothing was written"):
        world.appender(log).append(append("/ours"))
    assert APPEND_TIMEOUT_S < world.elapsed_s <= APPEND_TIMEOUT_S + BACKOFF.max_s
    assert max(world.pauses) <= BACKOFF.max_s
    assert {key for _, key in keys(plain)} == {"/theirs"}


class MaxJitter(random.Random):
    """Jitter that is always maximal."""

    def uniform(self, a: float, b: float) -> float:
        del a
        return b


def test_pauses_double_per_conflict_then_shrink_with_waiting(database: Database, world: World) -> None:
    theirs = world.appender(SqliteLog(database))
    log = OvertakenLog(database, lambda: theirs.append(append("/theirs", request_id="theirs")), times=float("inf"))
    ours = Appender(log, world.clock, world.pause, world.monotonic, rng=MaxJitter())
    with pytest.raises(Busy):
        ours.append(append("/ours"))
    longest = world.pauses.index(max(world.pauses))
    assert world.pauses[:4] == pytest.approx([BACKOFF.initial_s * 2**step for step in range(4)], rel=0.05)
    assert longest > 4
    assert world.pauses[longest:] == sorted(world.pauses[longest:], reverse=True)
    assert world.pauses[-1] == pytest.approx(BACKOFF.max_s * MIN_BACKOFF_FACTOR)


def test_append_after_contention_starts_with_longer_pause(database: Database, world: World) -> None:
    theirs = world.appender(SqliteLog(database))
    log = OvertakenLog(database, lambda: theirs.append(append("/theirs", request_id="theirs")), times=5)
    ours = Appender(log, world.clock, world.pause, world.monotonic, rng=MaxJitter())
    ours.append(append("/1"))
    first_pauses = []
    for number in range(3):
        theirs.append(append("/theirs", request_id="theirs"))
        pauses_before = len(world.pauses)
        ours.append(append("/2", request_id=str(number)))
        first_pauses += world.pauses[pauses_before:]
    assert first_pauses == [BACKOFF.initial_s * 2 ** (5 - CONTENTION_DECAY), BACKOFF.initial_s, BACKOFF.initial_s]


@pytest.mark.parametrize("writes", [True, False], ids=["after writing", "before writing"])
def test_append_without_response_repeats_identical_write(writes: bool, database: Database, world: World) -> None:
    log = FailingLog(database, times=2, writes=writes)
    appender = world.appender(log)
    appended = appender.append_group([append("/1", request_id="a", idempotency_key="k"), append("/2", request_id="b")])
    assert len(log.attempts) == 3
    assert log.attempts[0] == log.attempts[1] == log.attempts[2]
    assert keys(log) == [(1, "/1"), (2, "/2")]
    assert [outcome.commit for outcome in appended if isinstance(outcome, Appended)] == list(log.read(1, 0))
    assert appender.append(append("/3")).commit.session == 3


def test_append_lost_then_overtaken_is_renumbered(database: Database, world: World) -> None:
    log = FailingLog(database, times=1, writes=False)

    def overtake(seconds: float) -> None:
        world.pause(seconds)
        if len(world.pauses) == 1:
            world.appender(SqliteLog(database)).append(append("/theirs", request_id="theirs"))

    ours = Appender(log, world.clock, overtake, world.monotonic)
    assert ours.append(append("/ours")).commit.session == 2
    assert keys(log) == [(1, "/theirs"), (2, "/ours")]


def test_append_without_response_until_deadline_raises(database: Database, world: World) -> None:
    log = FailingLog(database, times=float("inf"), writes=True)
    appender = world.appender(log)
    with pytest.raises(Unavailable, match="no answer"):
        appender.append(append("/1"))
    assert APPEND_TIMEOUT_S < world.elapsed_s <= APPEND_TIMEOUT_S + BACKOFF.max_s
    assert keys(log) == [(1, "/1")]
    log.left = 0
    assert appender.append(append("/2")).commit.session == 2


def test_repeated_key_returns_first_commit(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    first = appender.append(append("/1", request_id="a", idempotency_key="k"))
    appender.append(append("/2"))
    again = appender.append(append("/1", request_id="b", idempotency_key="k"))
    assert (first.replayed, again) == (False, Appended(first.commit, replayed=True))
    assert keys(log) == [(1, "/1"), (2, "/2")]


def test_repeated_key_at_other_writer_returns_first_commit(log: SqliteLog, world: World) -> None:
    first = world.appender(log).append(append("/1", request_id="a", idempotency_key="k"))
    again = world.appender(log).append(append("/1", request_id="b", idempotency_key="k"))
    assert again == Appended(first.commit, replayed=True)


def test_repeated_key_with_other_request_is_refused(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1", idempotency_key="k"))
    with pytest.raises(KeyReused, match="Idempotency-Key 'k' was used for another request"):
        appender.append(append("/2", idempotency_key="k"))
    with pytest.raises(KeyReused):
        appender.append(append("/1", idempotency_key="k", condition=no_match("/9")))
    assert keys(log) == [(1, "/1")]


def test_repeated_key_in_group_is_written_once(log: SqliteLog, world: World) -> None:
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


def test_same_key_on_other_server_is_independent(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1", idempotency_key="k"))
    assert not appender.append(append("/2", server=2, idempotency_key="k")).replayed


def test_key_expires_after_receipt_ttl(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    first = appender.append(append("/1", request_id="a", idempotency_key="k"))
    assert log.receipt(1, "k") == Receipt(append("/1").digest, session=1, at_us=NOW)
    world.now_ms += RECEIPT_TTL_S * 1000
    assert appender.append(append("/1", request_id="b", idempotency_key="k")) == first._replace(replayed=True)
    world.now_ms += 1
    assert appender.append(append("/1", request_id="c", idempotency_key="k")).commit.session == 2


def test_concurrent_writers_with_same_key_write_once(database: Database, world: World) -> None:
    plain = SqliteLog(database)
    theirs = append("/1", request_id="theirs", idempotency_key="k")
    log = OvertakenLog(database, lambda: world.appender(plain).append(theirs))
    answer = world.appender(log).append(append("/1", request_id="ours", idempotency_key="k"))
    assert answer == Appended(next(plain.read(1, 0)), replayed=True)
    assert keys(plain) == [(1, "/1")]


def test_repeated_key_ignores_condition_matched_by_own_events(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    first = appender.append(append("/1", idempotency_key="k", condition=no_match("/1")))
    again = appender.append(append("/1", request_id="b", idempotency_key="k", condition=no_match("/1")))
    assert again == first._replace(replayed=True)


def test_repeated_key_with_condition_after_position_is_replayed(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    position = appender.append(append("/1")).commit.last_event_id
    first = appender.append(append("/2", idempotency_key="k", condition=no_match("/1", after=position)))
    again = appender.append(append("/2", idempotency_key="k", condition=no_match("/1", after=position)))
    assert again == first._replace(replayed=True)


def test_refused_append_does_not_use_its_key(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    appender.append(append("/1"))
    with pytest.raises(ConditionFailed):
        appender.append(append("/1", idempotency_key="k", condition=no_match("/1")))
    assert not appender.append(append("/2", idempotency_key="k")).replayed


def test_exhausted_log_fails_only_its_own_requests(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    log.append([Commit(1, 1, 2**53 - 1, 1, 0, "r", f"[{text()}]", 0)])
    full, other = appender.append_group([append("/1", request_id="a"), append("/1", request_id="b", server=2)])
    assert not isinstance(full, Appended)
    assert isinstance(other, Appended)


class ScriptedLog(SqliteLog):
    """Each append raises the next of `errors` and writes nothing."""

    def __init__(self, database: Database, errors: Sequence[AnnalsError]) -> None:
        super().__init__(database)
        self._errors = iter(errors)

    def append(self, commits: Sequence[Commit]) -> None:
        del commits
        raise next(self._errors)


NO_ANSWER, TAKEN, FULL = Unavailable("no answer"), SessionTaken(1, 1), Unwritable("the disk is full")


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ([FULL], Unwritable),
        ([TAKEN, FULL], Unwritable),
        ([NO_ANSWER, FULL], Unavailable),
        ([NO_ANSWER, TAKEN, FULL], Unwritable),
        ([TAKEN, NO_ANSWER, FULL], Unavailable),
    ],
    ids=["alone", "after a conflict", "after no answer", "after no answer, then a conflict", "after both"],
)
def test_full_disk_is_unknown_outcome_only_after_no_answer(
    errors: list[AnnalsError], raised: type[AnnalsError], database: Database, world: World
) -> None:
    """After a conflict nothing of the earlier attempts can have been written."""
    with pytest.raises(raised, match="the disk is full"):
        world.appender(ScriptedLog(database, errors)).append(append("/1"))
