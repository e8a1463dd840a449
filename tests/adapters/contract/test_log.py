"""What every store of the log promises: the docstrings of the port `Log`, one by one."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

from chalicelib.domain.errors import Conflict, KeyTaken, SessionTaken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, chained
from chalicelib.services.ports import Log
from tests.builders import NOW_S, a_commit, a_receipt, a_text, noise

MORE_THAN_A_SQLITE_PAGE = 150
MORE_THAN_A_DYNAMODB_PAGE = 6
"""So many commits of a quarter of a megabyte are more than a page of one megabyte."""
RACERS = 4
RACES = 25
RACE_S = 30.0


@pytest.fixture(params=["sqlite", "moto", "ministack"])
def log(request: pytest.FixtureRequest) -> Log:
    """Each store, empty."""
    found: Log = request.getfixturevalue(f"{request.param}_log")
    return found


@pytest.fixture(params=["sqlite", "ministack"])
def shared_log(request: pytest.FixtureRequest) -> Log:
    """Each store that threads can share, empty; moto is not one."""
    found: Log = request.getfixturevalue(f"{request.param}_log")
    return found


def test_the_head_of_an_empty_log_is_zero(log: Log) -> None:
    assert log.head(7) == Head(server=7, session=0, instance=0, last=0)


def test_the_head_is_the_last_event_of_the_last_commit(log: Log) -> None:
    append(log, a_commit(session=1, at=1_000))
    append(log, a_commit(session=2, at=2_000, prev=1_000, texts=(a_text("/a"), a_text("/b"), a_text("/c"))))
    assert log.head(1) == Head(server=1, session=2, instance=3, last=2_002)


def test_the_head_after_the_tenth_session_is_the_tenth_not_the_ninth(log: Log) -> None:
    append(log, *commits(10))
    assert log.head(1) == Head(server=1, session=10, instance=1, last=10_000)


def test_the_start_of_an_empty_log_is_zero(log: Log) -> None:
    assert log.start(7) == Head(server=7, session=0, instance=0, last=0)


def test_the_start_of_a_log_that_forgot_nothing_is_zero(log: Log) -> None:
    append(log, *commits(10))
    assert log.start(1) == Head(server=1, session=0, instance=0, last=0)


def test_the_start_is_the_head_before_the_first_commit_that_is_kept(log: Log) -> None:
    kept = [a_commit(session=session) for session in (9, 10, 11)]
    append(log, a_commit(server=2, session=1), *kept, a_commit(server=3, session=1))
    assert log.start(1) == Head(server=1, session=8, instance=0, last=8_000)
    assert list(chained(log.start(1), log.read(1, log.start(1).session))) == kept


def test_a_commit_is_found_exactly_as_it_was_appended(log: Log) -> None:
    commit = a_commit(session=1, request_id="ours", at=2**53 - 2, texts=(a_text("/a"), a_text("/b")))
    append(log, commit)
    assert log.commit(1, 1) == commit


@pytest.mark.parametrize(("server", "session"), [(1, 0), (1, 2), (2, 1), (1, 2**40)])
def test_a_commit_that_was_not_appended_is_absent(log: Log, server: int, session: int) -> None:
    append(log, a_commit(session=1))
    assert log.commit(server, session) is None


def test_appending_nothing_writes_nothing(log: Log) -> None:
    log.append([], [], NOW_S)
    assert log.head(1) == Head(1)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":["ä","日本","🎉"],"key":"/ß/é"}',
        r'{"key":"say \"hello\" and \\ and \/"}',
        r'{"key":"one\ntwo\ttabs\r"}',
        r'{"key":"\u0000 \u001f \ud83d\ude00"}',
        '{"key":"it\'s \'; DROP TABLE log; -- :server #session"}',
        '{"key":"\u2028\u2029\u007f\ufeff"}',
        '{"key":"' + "x" * 300_000 + '"}',
        '{"key":"' + "ü€" * 50_000 + '"}',
        '{"key":"' + noise(300_000) + '"}',
    ],
    ids=["non-ASCII", "quotes", "newline escapes", "NUL escapes", "SQL", "separators", "large", "umlauts", "noise"],
)
def test_a_body_survives_exactly(log: Log, text: str) -> None:
    commit = a_commit(texts=(text, a_text()))
    append(log, commit)
    assert (log.commit(1, 1), list(log.read(1, 0))) == (commit, [commit])


def test_a_second_writer_is_refused(log: Log) -> None:
    append(log, a_commit(session=1, request_id="ours"))
    with pytest.raises(SessionTaken, match="session 1 of server 1") as refusal:
        append(log, a_commit(session=1, request_id="theirs"))
    assert (refusal.value.server, refusal.value.session) == (1, 1)
    assert list(log.read(1, 0)) == [a_commit(session=1, request_id="ours")]


def test_a_commit_repeated_after_a_lost_answer_is_stored_once(log: Log) -> None:
    commit = a_commit(session=1, request_id="ours")
    append(log, commit)
    append(log, commit)
    assert list(log.read(1, 0)) == [commit]


def test_a_group_repeated_after_a_lost_answer_is_stored_once(log: Log) -> None:
    group = [a_commit(session=1, request_id="a"), a_commit(session=2, request_id="b")]
    append(log, *group)
    append(log, *group)
    assert list(log.read(1, 0)) == group


def test_a_group_with_a_receipt_repeated_after_a_lost_answer_is_stored_once(log: Log) -> None:
    group = [a_commit(session=1, request_id="a"), a_commit(session=2, request_id="b")]
    receipt = a_receipt(session=2, request_id="b")
    log.append(group, [receipt], NOW_S)
    log.append(group, [receipt], NOW_S)
    assert list(log.read(1, 0)) == group
    assert log.receipt(1, "k", NOW_S) == receipt


def test_a_repeated_group_that_grew_loses_nothing(log: Log) -> None:
    group = [a_commit(session=n, request_id=f"r{n}") for n in (1, 2, 3)]
    append(log, *group[:2])
    log.append(group, [a_receipt(session=3, request_id="r3")], NOW_S)
    assert list(log.read(1, 0)) == group
    assert log.receipt(1, "k", NOW_S) == a_receipt(session=3, request_id="r3")


def test_a_repeat_is_recognised_under_the_commits_that_followed_it(log: Log) -> None:
    append(log, *commits(3))
    append(log, a_commit(session=1))
    assert list(log.read(1, 0)) == commits(3)


def test_a_group_is_stored_whole(log: Log) -> None:
    append(log, *commits(5))
    assert list(log.read(1, 0)) == commits(5)


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_of_a_group_with_one_session_taken_nothing_is_stored(log: Log, taken: int) -> None:
    theirs = a_commit(session=taken, request_id="theirs")
    append(log, theirs)
    with pytest.raises(SessionTaken, match=f"session {taken} of server 1"):
        log.append([a_commit(session=n, request_id=f"r{n}") for n in (1, 2, 3)], [a_receipt()], NOW_S)
    assert list(log.read(1, 0)) == [theirs]
    assert log.receipt(1, "k", NOW_S) is None


def test_a_group_may_span_servers(log: Log) -> None:
    group = [a_commit(server=server, request_id=f"r{server}") for server in (1, 2, 3)]
    append(log, *group)
    assert [log.commit(server, 1) for server in (1, 2, 3)] == group


def test_a_group_that_spans_servers_is_stored_whole_or_not_at_all(log: Log) -> None:
    append(log, a_commit(server=2, request_id="theirs"))
    with pytest.raises(SessionTaken, match="session 1 of server 2"):
        append(log, *(a_commit(server=server, request_id=f"r{server}") for server in (1, 2, 3)))
    assert [log.head(server).session for server in (1, 2, 3)] == [0, 1, 0]


def test_a_receipt_is_stored_with_its_commit(log: Log) -> None:
    receipt = a_receipt(key="key with \"quotes\" & 'spaces'", digest="0f" * 16)
    log.append([a_commit()], [receipt], NOW_S)
    assert log.receipt(1, receipt.key, NOW_S) == receipt
    assert log.commit(1, 1) == a_commit()


@pytest.mark.parametrize(("server", "key"), [(1, "K"), (2, "k"), (11, "k")])
def test_a_receipt_of_another_key_or_server_is_absent(log: Log, server: int, key: str) -> None:
    log.append([a_commit()], [a_receipt(server=1, key="k")], NOW_S)
    assert log.receipt(server, key, NOW_S) is None


def test_the_same_key_is_another_for_another_server(log: Log) -> None:
    log.append([a_commit(server=1)], [a_receipt(server=1)], NOW_S)
    log.append([a_commit(server=2)], [a_receipt(server=2)], NOW_S)
    assert [log.receipt(server, "k", NOW_S) for server in (1, 2)] == [a_receipt(server=1), a_receipt(server=2)]


def test_a_key_in_use_is_refused_and_nothing_is_stored(log: Log) -> None:
    log.append([a_commit(session=1, request_id="first")], [a_receipt(request_id="first")], NOW_S)
    with pytest.raises(KeyTaken, match="idempotency key 'k' of server 1") as refusal:
        log.append([a_commit(session=2, request_id="second")], [a_receipt(session=2, request_id="second")], NOW_S)
    assert (refusal.value.server, refusal.value.key) == (1, "k")
    assert list(log.read(1, 0)) == [a_commit(session=1, request_id="first")]
    assert log.receipt(1, "k", NOW_S) == a_receipt(request_id="first")


def test_a_receipt_counts_until_the_second_it_expires_in_is_over(log: Log) -> None:
    receipt = a_receipt(expires_s=NOW_S)
    log.append([a_commit()], [receipt], NOW_S - 10)
    assert [log.receipt(1, "k", now_s) for now_s in (NOW_S - 1, NOW_S, NOW_S + 1)] == [receipt, receipt, None]


def test_a_receipt_that_expires_now_still_holds_its_key(log: Log) -> None:
    log.append([a_commit(session=1, request_id="first")], [a_receipt(request_id="first", expires_s=NOW_S)], NOW_S)
    with pytest.raises(KeyTaken):
        log.append([a_commit(session=2, request_id="second")], [a_receipt(session=2, request_id="second")], NOW_S)


def test_the_key_of_an_expired_receipt_can_be_used_again(log: Log) -> None:
    log.append([a_commit(session=1, request_id="first")], [a_receipt(request_id="first", expires_s=NOW_S)], NOW_S)
    second = a_receipt(session=2, request_id="second", digest="e")
    log.append([a_commit(session=2, request_id="second")], [second], NOW_S + 1)
    assert log.receipt(1, "k", NOW_S + 1) == second


@pytest.mark.parametrize(
    ("after", "most", "sessions"),
    [
        (0, None, [1, 2, 3, 4, 5]),
        (2, None, [3, 4, 5]),
        (5, None, []),
        (9, None, []),
        (0, 2, [1, 2]),
        (2, 2, [3, 4]),
        (4, 2, [5]),
        (0, 5, [1, 2, 3, 4, 5]),
        (0, 9, [1, 2, 3, 4, 5]),
        (0, 0, []),
        (9, 2, []),
    ],
)
def test_reading_goes_forward_from_after_a_session(log: Log, after: int, most: int | None, sessions: list[int]) -> None:
    append(log, *commits(5))
    assert list(log.read(1, after, most)) == [a_commit(session=session) for session in sessions]


@pytest.mark.parametrize(
    ("before", "most", "sessions"),
    [
        (6, None, [5, 4, 3, 2, 1]),
        (4, None, [3, 2, 1]),
        (1, None, []),
        (0, None, []),
        (6, 2, [5, 4]),
        (4, 2, [3, 2]),
        (2, 2, [1]),
        (6, 9, [5, 4, 3, 2, 1]),
        (6, 0, []),
        (100, None, [5, 4, 3, 2, 1]),
        (100, 2, [5, 4]),
        (2**53, 2, [5, 4]),
    ],
)
def test_reading_back_goes_backward_from_before_a_session(
    log: Log, before: int, most: int | None, sessions: list[int]
) -> None:
    append(log, *commits(5))
    assert list(log.read_back(1, before, most)) == [a_commit(session=session) for session in sessions]


@pytest.mark.parametrize(
    "sessions",
    [[], [1], [5, 1, 3], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [2, 2, 1, 2]],
    ids=["none", "one", "any order", "ascending", "descending", "repeated"],
)
def test_commits_come_in_the_order_they_are_asked_for(log: Log, sessions: list[int]) -> None:
    append(log, *commits(5))
    assert list(log.commits(1, sessions)) == [a_commit(session=session) for session in sessions]


@pytest.mark.parametrize(
    ("asked", "there"),
    [([6], []), ([0, 1], [1]), ([9, 5, 7, 2], [5, 2]), ([2**40, 3, 2**41], [3])],
)
def test_commits_that_are_missing_are_left_out(log: Log, asked: list[int], there: list[int]) -> None:
    append(log, *commits(5))
    assert list(log.commits(1, asked)) == [a_commit(session=session) for session in there]


def test_commits_are_those_of_one_server(log: Log) -> None:
    append(log, *(a_commit(server=server, session=session) for server in (1, 2) for session in (1, 2, 3)))
    append(log, a_commit(server=1, session=4))
    assert [list(log.commits(server, [4, 2, 1])) for server in (1, 2, 3)] == [
        [a_commit(server=1, session=session) for session in (4, 2, 1)],
        [a_commit(server=2, session=session) for session in (2, 1)],
        [],
    ]


def test_more_commits_than_a_page_come_in_order(log: Log) -> None:
    stored = commits(MORE_THAN_A_SQLITE_PAGE)
    for start in range(0, MORE_THAN_A_SQLITE_PAGE, 50):
        append(log, *stored[start : start + 50])
    asked = [*range(MORE_THAN_A_SQLITE_PAGE + 20, 0, -1), *range(1, MORE_THAN_A_SQLITE_PAGE)]
    there = [*stored[::-1], *stored[:-1]]
    assert list(log.commits(1, asked)) == there
    assert list(islice(log.commits(1, asked), 3)) == there[:3]


def test_large_commits_come_whole(log: Log) -> None:
    stored = large_commits()
    for commit in stored:
        append(log, commit)
    assert list(log.commits(1, range(MORE_THAN_A_DYNAMODB_PAGE, 0, -1))) == stored[::-1]


def test_a_commit_can_be_fetched_as_soon_as_it_is_appended(log: Log) -> None:
    for session in range(1, 11):
        append(log, a_commit(session=session))
        assert list(log.commits(1, [session, session + 1])) == [a_commit(session=session)]


def test_most_counts_commits_even_where_retention_removed_some(log: Log) -> None:
    kept = [a_commit(session=session) for session in (7, 8, 9)]
    append(log, *kept)
    assert list(log.read(1, 0, 2)) == kept[:2]


def test_the_logs_of_servers_are_separate(log: Log) -> None:
    append(log, a_commit(server=1, session=1), a_commit(server=2, session=1), a_commit(server=2, session=2))
    assert [list(log.read(server, 0)) for server in (1, 2, 3)] == [
        [a_commit(server=1, session=1)],
        [a_commit(server=2, session=1), a_commit(server=2, session=2)],
        [],
    ]
    assert list(log.read_back(2, 9)) == [a_commit(server=2, session=2), a_commit(server=2, session=1)]
    assert [log.head(server).session for server in (1, 2, 3)] == [1, 2, 0]


def test_many_small_commits_are_read_both_ways_without_a_gap(log: Log) -> None:
    stored = commits(MORE_THAN_A_SQLITE_PAGE)
    for commit in stored:
        append(log, commit)
    assert list(chained(Head(1), log.read(1, 0))) == stored
    assert list(log.read_back(1, MORE_THAN_A_SQLITE_PAGE + 1)) == stored[::-1]
    assert list(log.read(1, 10, 100)) == stored[10:110]
    assert list(log.read_back(1, 141, 100)) == stored[40:140][::-1]


def test_many_large_commits_are_read_both_ways_without_a_gap(log: Log) -> None:
    stored = large_commits()
    for commit in stored:
        append(log, commit)
    assert list(chained(Head(1), log.read(1, 0))) == stored
    assert list(log.read_back(1, MORE_THAN_A_DYNAMODB_PAGE + 1)) == stored[::-1]
    assert list(log.read(1, 0, 5)) == stored[:5]
    assert list(log.read_back(1, 7, 5)) == stored[1:][::-1]


def test_reading_can_stop_anywhere_and_the_log_goes_on(log: Log) -> None:
    append(log, *commits(5))
    assert list(islice(log.read(1, 0), 2)) == commits(2)
    append(log, a_commit(session=6))
    assert list(log.read(1, 4)) == [a_commit(session=5), a_commit(session=6)]


def test_of_writers_that_race_for_a_session_exactly_one_wins(shared_log: Log) -> None:
    def attempt(racer: int, race: int) -> None:
        append(shared_log, a_commit(session=race, request_id=f"racer {racer}"))

    winners = race(attempt)
    assert list(shared_log.read(1, 0)) == [
        a_commit(session=n, request_id=f"racer {winner}") for n, winner in enumerate(winners, start=1)
    ]


def test_of_groups_that_race_for_sessions_exactly_one_wins_whole(shared_log: Log) -> None:
    def group(racer: int, race: int) -> list[Commit]:
        return [a_commit(session=2 * race - half, request_id=f"racer {racer}.{half}") for half in (1, 0)]

    def attempt(racer: int, race: int) -> None:
        append(shared_log, *group(racer, race))

    winners = race(attempt)
    assert list(shared_log.read(1, 0)) == [
        commit for n, winner in enumerate(winners, start=1) for commit in group(winner, n)
    ]


def test_of_writers_that_race_for_a_key_exactly_one_wins(shared_log: Log) -> None:
    def attempt(racer: int, race: int) -> None:
        # Each racer writes to a log of its own, so only the key can stop it.
        commit = a_commit(session=shared_log.head(racer).session + 1, server=racer, request_id=f"racer {racer}")
        shared_log.append([commit], [a_receipt(f"key {race}", commit.session, f"racer {racer}", 99)], NOW_S)

    winners = race(attempt)
    held = [shared_log.receipt(99, f"key {n}", NOW_S) for n in range(1, RACES + 1)]
    assert [found and found.request_id for found in held] == [f"racer {winner}" for winner in winners]
    won = Counter(winners)
    assert [shared_log.head(racer).session for racer in range(RACERS)] == [won[racer] for racer in range(RACERS)]


def append(log: Log, *group: Commit) -> None:
    """Append commits without receipts."""
    log.append(group, [], NOW_S)


def commits(count: int) -> list[Commit]:
    """Sessions 1 to `count` of server 1."""
    return [a_commit(session=session) for session in range(1, count + 1)]


def large_commits() -> list[Commit]:
    """More commits than fit in a page of DynamoDB, even deflated."""
    return [
        a_commit(session=session, texts=(f'{{"key":"{noise(300_000, seed=session)}"}}',))
        for session in range(1, MORE_THAN_A_DYNAMODB_PAGE + 1)
    ]


def race(attempt: Callable[[int, int], None]) -> list[int]:
    """Let all racers attempt each race at the same moment; who won each, after checking that it was one."""
    start = threading.Barrier(RACERS, timeout=RACE_S)

    def run(racer: int) -> list[int]:
        won = []
        for number in range(1, RACES + 1):
            start.wait()
            try:
                attempt(racer, number)
            except Conflict:
                continue
            won.append(number)
        return won

    with ThreadPoolExecutor(RACERS) as pool:
        won = list(pool.map(run, range(RACERS)))
    assert sorted(number for numbers in won for number in numbers) == list(range(1, RACES + 1))
    return [next(racer for racer in range(RACERS) if number in won[racer]) for number in range(1, RACES + 1)]
