"""Contract of the `Log` port, which every adapter fulfils."""

from itertools import islice

import pytest

from chalicelib.domain.errors import SessionTaken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, verify_contiguous
from chalicelib.services.ports import Log
from tests.builders import a_commit, a_run, a_text, incompressible_text

MORE_THAN_A_SQLITE_PAGE = 150
MORE_THAN_A_DYNAMODB_PAGE = 6
"""This number of commits of a quarter of a megabyte exceeds a page of one megabyte."""


@pytest.fixture(params=["sqlite", "moto", "ministack", "boto3", "dynamodb_local", "localstack"])
def log(request: pytest.FixtureRequest) -> Log:
    """Each store, empty."""
    log_under_test: Log = request.getfixturevalue(f"{request.param}_log")
    return log_under_test


def test_head_of_empty_log_is_zero(log: Log) -> None:
    assert log.head(7) == Head(server=7, session=0, instance=0, last_event_id=0)


def test_head_is_last_event_of_last_commit(log: Log) -> None:
    append(log, a_commit(session=1, at=1_000))
    append(log, a_commit(session=2, at=2_000, prev=1_000, texts=(a_text("/a"), a_text("/b"), a_text("/c"))))
    assert log.head(1) == Head(server=1, session=2, instance=3, last_event_id=2_002)


def test_head_after_ten_sessions_is_tenth(log: Log) -> None:
    append(log, *commits(10))
    assert log.head(1) == Head(server=1, session=10, instance=1, last_event_id=10_000)


def test_start_of_empty_log_is_zero(log: Log) -> None:
    assert log.start(7) == Head(server=7, session=0, instance=0, last_event_id=0)


def test_start_of_complete_log_is_zero(log: Log) -> None:
    append(log, *commits(10))
    assert log.start(1) == Head(server=1, session=0, instance=0, last_event_id=0)


def test_start_of_trimmed_log_is_before_first_commit(log: Log) -> None:
    stored = [a_commit(session=session) for session in (9, 10, 11)]
    append(log, a_commit(server=2, session=1), *stored, a_commit(server=3, session=1))
    assert log.start(1) == Head(server=1, session=8, instance=0, last_event_id=8_000)
    assert list(verify_contiguous(log.start(1), log.read(1, log.start(1).session))) == stored


def test_commit_is_returned_as_appended(log: Log) -> None:
    commit = a_commit(session=1, request_id="ours", at=2**53 - 2, texts=(a_text("/a"), a_text("/b")))
    append(log, commit)
    assert log.commit(1, 1) == commit


@pytest.mark.parametrize(("server", "session"), [(1, 0), (1, 2), (2, 1), (1, 2**40)])
def test_commit_not_appended_is_none(log: Log, server: int, session: int) -> None:
    append(log, a_commit(session=1))
    assert log.commit(server, session) is None


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
        '{"key":"' + incompressible_text(300_000) + '"}',
    ],
    ids=["non-ASCII", "quotes", "newline escapes", "NUL escapes", "SQL", "separators", "large", "umlauts", "noise"],
)
def test_body_is_stored_unchanged(log: Log, text: str) -> None:
    commit = a_commit(texts=(text, a_text()))
    append(log, commit)
    assert (log.commit(1, 1), list(log.read(1, 0))) == (commit, [commit])


def test_append_to_taken_session_is_refused(log: Log) -> None:
    append(log, a_commit(session=1, request_id="ours"))
    with pytest.raises(SessionTaken, match="session 1 of server 1") as refusal:
        append(log, a_commit(session=1, request_id="theirs"))
    assert (refusal.value.server, refusal.value.session) == (1, 1)
    assert list(log.read(1, 0)) == [a_commit(session=1, request_id="ours")]


def test_repeated_commit_is_stored_once(log: Log) -> None:
    commit = a_commit(session=1, request_id="ours")
    append(log, commit)
    append(log, commit)
    assert list(log.read(1, 0)) == [commit]


def test_repeated_group_is_stored_once(log: Log) -> None:
    group = a_run("a", "b", "c")
    log.append(group)
    log.append(group)
    assert list(log.read(1, 0)) == group


def test_repeated_commit_before_later_commits_is_recognized(log: Log) -> None:
    append(log, *commits(3))
    append(log, a_commit(session=1))
    assert list(log.read(1, 0)) == commits(3)


def test_group_with_taken_session_stores_nothing(log: Log) -> None:
    theirs = a_commit(session=1, request_id="theirs")
    append(log, theirs)
    with pytest.raises(SessionTaken, match="session 1 of server 1"):
        log.append(a_run("a", "b", "c"))
    assert list(log.read(1, 0)) == [theirs]


def test_commit_after_lost_race_against_group_is_refused(log: Log) -> None:
    log.append(a_run("a", "b", "c"))
    with pytest.raises(SessionTaken, match="session 1 of server 1"):
        append(log, a_commit(session=1, request_id="late"))


def test_group_has_a_head_at_its_last_commit(log: Log) -> None:
    log.append(a_run("a", "b", "c"))
    assert log.head(1) == Head(1, 3, 2, 1_005)
    assert log.head(1).position == 6
    assert log.start(1) == Head(1)


@pytest.mark.parametrize("after", range(8))
def test_read_starts_within_a_group(log: Log, after: int) -> None:
    stored = [*a_run("a", "b", "c"), *a_run("d", "e", session=4), a_commit(6, at=9_000, prev=4_003, before=10)]
    for group in (stored[:3], stored[3:5], stored[5:]):
        log.append(group)
    assert list(log.read(1, after)) == stored[after:]
    assert list(log.read(1, after, 2)) == stored[after : after + 2]
    assert list(log.read_backwards(1, after)) == stored[: max(after - 1, 0)][::-1]
    assert list(log.read_backwards(1, after, 2)) == stored[: max(after - 1, 0)][::-1][:2]


def test_commit_within_a_group_is_found(log: Log) -> None:
    stored = [*a_run("a", "b", "c"), *a_run("d", "e", session=4)]
    log.append(stored[:3])
    log.append(stored[3:])
    assert [log.commit(1, session) for session in range(7)] == [None, *stored, None]
    assert list(log.commits(1, [5, 9, 2, 3, 1])) == [stored[4], stored[1], stored[2], stored[0]]


def test_fields_of_each_commit_of_a_group_are_stored(log: Log) -> None:
    first, second, third = a_run("a", "b", "c")
    group = [first._replace(by="anna"), second._replace(idempotency_key="k 1", digest="0f"), third]
    log.append(group)
    assert list(log.read(1, 0)) == group
    single = a_commit(4, at=9_000, prev=1_005, before=6)._replace(by="ben", idempotency_key="k 1", digest="1e")
    log.append([single])
    assert log.commit(1, 4) == single


@pytest.mark.parametrize(
    ("after", "limit", "sessions"),
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
def test_read_returns_commits_after_session(log: Log, after: int, limit: int | None, sessions: list[int]) -> None:
    append(log, *commits(5))
    assert list(log.read(1, after, limit)) == [a_commit(session=session) for session in sessions]


@pytest.mark.parametrize(
    ("before", "limit", "sessions"),
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
def test_read_backwards_returns_commits_before_session(
    log: Log, before: int, limit: int | None, sessions: list[int]
) -> None:
    append(log, *commits(5))
    assert list(log.read_backwards(1, before, limit)) == [a_commit(session=session) for session in sessions]


@pytest.mark.parametrize(
    "sessions",
    [[], [1], [5, 1, 3], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [2, 2, 1, 2]],
    ids=["none", "one", "any order", "ascending", "descending", "repeated"],
)
def test_commits_returns_given_order(log: Log, sessions: list[int]) -> None:
    append(log, *commits(5))
    assert list(log.commits(1, sessions)) == [a_commit(session=session) for session in sessions]


@pytest.mark.parametrize(
    ("sessions", "expected"),
    [([6], []), ([0, 1], [1]), ([9, 5, 7, 2], [5, 2]), ([2**40, 3, 2**41], [3])],
)
def test_commits_skips_missing_sessions(log: Log, sessions: list[int], expected: list[int]) -> None:
    append(log, *commits(5))
    assert list(log.commits(1, sessions)) == [a_commit(session=session) for session in expected]


def test_commits_returns_only_commits_of_server(log: Log) -> None:
    append(log, *(a_commit(server=server, session=session) for server in (1, 2) for session in (1, 2, 3)))
    append(log, a_commit(server=1, session=4))
    assert [list(log.commits(server, [4, 2, 1])) for server in (1, 2, 3)] == [
        [a_commit(server=1, session=session) for session in (4, 2, 1)],
        [a_commit(server=2, session=session) for session in (2, 1)],
        [],
    ]


def test_commits_over_several_pages_are_in_order(log: Log) -> None:
    stored = commits(MORE_THAN_A_SQLITE_PAGE)
    for start in range(0, MORE_THAN_A_SQLITE_PAGE, 50):
        append(log, *stored[start : start + 50])
    sessions = [*range(MORE_THAN_A_SQLITE_PAGE + 20, 0, -1), *range(1, MORE_THAN_A_SQLITE_PAGE)]
    expected = [*stored[::-1], *stored[:-1]]
    assert list(log.commits(1, sessions)) == expected
    assert list(islice(log.commits(1, sessions), 3)) == expected[:3]


def test_commits_returns_large_commits_completely(log: Log) -> None:
    stored = large_commits()
    for commit in stored:
        append(log, commit)
    assert list(log.commits(1, range(MORE_THAN_A_DYNAMODB_PAGE, 0, -1))) == stored[::-1]


def test_commits_finds_commit_right_after_append(log: Log) -> None:
    for session in range(1, 11):
        append(log, a_commit(session=session))
        assert list(log.commits(1, [session, session + 1])) == [a_commit(session=session)]


def test_read_limit_counts_commits_in_trimmed_log(log: Log) -> None:
    stored = [a_commit(session=session) for session in (7, 8, 9)]
    append(log, *stored)
    assert list(log.read(1, 0, 2)) == stored[:2]


def test_logs_of_servers_are_separate(log: Log) -> None:
    append(log, a_commit(server=1, session=1), a_commit(server=2, session=1), a_commit(server=2, session=2))
    assert [list(log.read(server, 0)) for server in (1, 2, 3)] == [
        [a_commit(server=1, session=1)],
        [a_commit(server=2, session=1), a_commit(server=2, session=2)],
        [],
    ]
    assert list(log.read_backwards(2, 9)) == [a_commit(server=2, session=2), a_commit(server=2, session=1)]
    assert [log.head(server).session for server in (1, 2, 3)] == [1, 2, 0]


def test_read_of_many_small_commits_has_no_gap(log: Log) -> None:
    stored = commits(MORE_THAN_A_SQLITE_PAGE)
    for commit in stored:
        append(log, commit)
    assert list(verify_contiguous(Head(1), log.read(1, 0))) == stored
    assert list(log.read_backwards(1, MORE_THAN_A_SQLITE_PAGE + 1)) == stored[::-1]
    assert list(log.read(1, 10, 100)) == stored[10:110]
    assert list(log.read_backwards(1, 141, 100)) == stored[40:140][::-1]


def test_read_of_many_large_commits_has_no_gap(log: Log) -> None:
    stored = large_commits()
    for commit in stored:
        append(log, commit)
    assert list(verify_contiguous(Head(1), log.read(1, 0))) == stored
    assert list(log.read_backwards(1, MORE_THAN_A_DYNAMODB_PAGE + 1)) == stored[::-1]
    assert list(log.read(1, 0, 5)) == stored[:5]
    assert list(log.read_backwards(1, 7, 5)) == stored[1:][::-1]


def test_read_can_be_abandoned(log: Log) -> None:
    append(log, *commits(5))
    assert list(islice(log.read(1, 0), 2)) == commits(2)
    append(log, a_commit(session=6))
    assert list(log.read(1, 4)) == [a_commit(session=5), a_commit(session=6)]


def append(log: Log, *group: Commit) -> None:
    """Append commits, each by itself."""
    for commit in group:
        log.append([commit])


def commits(count: int) -> list[Commit]:
    """Sessions 1 to `count` of server 1."""
    return [a_commit(session=session) for session in range(1, count + 1)]


def large_commits() -> list[Commit]:
    """More commits than fit into a page of DynamoDB, even compressed."""
    return [
        a_commit(session=session, texts=(f'{{"key":"{incompressible_text(300_000, seed=session)}"}}',))
        for session in range(1, MORE_THAN_A_DYNAMODB_PAGE + 1)
    ]
