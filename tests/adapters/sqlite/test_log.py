"""The log on SQLite: where each log ends, and deletion of commits. The rest is in the contract of the `Log` port."""

import pytest

from chalicelib.adapters.sqlite.log import MAX_DELETED_COMMITS, SqliteLog
from tests.builders import a_commit


def delete_all_up_to(log: SqliteLog, session: int) -> int:
    """Delete in steps and return the number of deleted commits."""
    deleted = 0
    while step := log.delete_up_to(1, session):
        deleted += step
    return deleted


@pytest.mark.parametrize("session", [4, 5, 6, 100])
def test_delete_up_to_never_deletes_last_commit(sqlite_log: SqliteLog, session: int) -> None:
    """The last commit determines the next session and EventId, which must not be used again."""
    sqlite_log.append([a_commit(number) for number in range(1, 6)])
    assert delete_all_up_to(sqlite_log, session) == 4
    assert list(sqlite_log.read(1, 0)) == [a_commit(5)]
    assert (sqlite_log.head(1), sqlite_log.start(1).session) == (a_commit(5).head, 4)


def test_delete_up_to_keeps_only_commit(sqlite_log: SqliteLog) -> None:
    sqlite_log.append([a_commit(1)])
    assert delete_all_up_to(sqlite_log, 1) == 0
    assert sqlite_log.head(1) == a_commit(1).head


def test_delete_up_to_deletes_long_logs_in_steps(sqlite_log: SqliteLog) -> None:
    sqlite_log.append([a_commit(number) for number in range(1, MAX_DELETED_COMMITS + 11)])
    assert [sqlite_log.delete_up_to(1, MAX_DELETED_COMMITS + 5) for _ in range(3)] == [MAX_DELETED_COMMITS, 5, 0]
    assert sqlite_log.start(1).session == MAX_DELETED_COMMITS + 5


def test_last_sessions_of_new_log_are_empty(sqlite_log: SqliteLog) -> None:
    assert sqlite_log.last_sessions() == {}


def test_last_sessions_contain_each_log_once(sqlite_log: SqliteLog) -> None:
    """Inboxes and configurations have negative numbers."""
    ends = {-2001: 2, -5: 1, -4: 3, -3: 2, -2: 1, -1: 1, 0: 2, 1: 5, 2: 1, 3: 70, 1000: 4}
    for server, sessions in ends.items():
        sqlite_log.append([a_commit(session, server=server) for session in range(1, sessions + 1)])
    assert sqlite_log.last_sessions() == ends
    sqlite_log.append([a_commit(6, server=1)])
    assert sqlite_log.last_sessions() == {**ends, 1: 6}
