"""Idempotency keys in the commits after the checkpoint of the views: each commit is read once."""

from collections.abc import Iterator

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.log.append import RECEIPT_STORED_S
from chalicelib.domain.log.commit import Commit
from chalicelib.services.log import receipts
from chalicelib.services.log.receipts import ProjectedReceipts, receipt_of
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.no_views import NoViews
from chalicelib.services.reading.tail_cache import TailCache
from tests.builders import uuid7
from tests.services.fakes import World, append


class ReadLog(SqliteLog):
    """Records the sessions that are read."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.sessions: list[int] = []

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        for commit in super().read(server, after, limit):
            self.sessions.append(commit.session)
            yield commit


def keyed_commits(log: SqliteLog, world: World, *keys: str) -> list[Commit]:
    appender = world.appender(log)
    return [appender.append(append(request_id=key, idempotency_key=key)).commit for key in keys]


def projected_receipts(log: SqliteLog, world: World) -> ProjectedReceipts:
    reader = LogReader(log, NoViews(), tails=TailCache(log, NoViews(), 0, world.clock))
    return ProjectedReceipts(reader, clock=world.clock)


def test_lookup_finds_several_keys_at_once(database: Database, world: World) -> None:
    log = ReadLog(database)
    commits = keyed_commits(log, world, "a", "b", "c")
    found = projected_receipts(log, world).receipts(1, ["a", "x", "c"])
    assert found == {"a": receipt_of(commits[0]), "c": receipt_of(commits[2])}


def test_second_lookup_reads_only_newer_commits(database: Database, world: World) -> None:
    log = ReadLog(database)
    first = keyed_commits(log, world, "a", "b")
    found = projected_receipts(log, world)
    assert found.receipts(1, ["a"]) == {"a": receipt_of(first[0])}
    later = keyed_commits(log, world, "c")
    log.sessions.clear()
    assert found.receipts(1, ["b", "c"]) == {"b": receipt_of(first[1]), "c": receipt_of(later[0])}
    assert set(log.sessions) == {3}


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10])
def test_lookup_with_full_memory_finds_every_key(
    limit: int, database: Database, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "MAX_REMEMBERED_KEYS", limit)
    log = ReadLog(database)
    commits = keyed_commits(log, world, "a", "b", "c")
    found = projected_receipts(log, world)
    for _ in range(2):
        assert found.receipts(1, ["a", "b", "c"]) == {each.idempotency_key: receipt_of(each) for each in commits}


def test_logs_beyond_the_limit_are_forgotten(database: Database, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "MAX_REMEMBERED_LOGS", 1)
    log = ReadLog(database)
    found = projected_receipts(log, world)
    for server in (1, 2, 1):
        commit = world.appender(log).append(append(server=server, request_id="r", idempotency_key=f"k{server}")).commit
        assert found.receipts(server, [f"k{server}", "other"]) == {f"k{server}": receipt_of(commit)}
        assert list(found._logs) == [server]


def test_forgotten_key_is_read_again(database: Database, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is newer than the views, which are empty, and older than the keys that are remembered."""
    monkeypatch.setattr(receipts, "MAX_REMEMBERED_KEYS", 2)
    log = ReadLog(database)
    first, *later = (uuid7(world.now_ms + n) for n in range(5))
    (commit,) = keyed_commits(log, world, first)
    found = projected_receipts(log, world)
    found.receipts(1, [first])
    found.remember(keyed_commits(log, world, *later))
    log.sessions.clear()
    assert found.receipts(1, [uuid7(world.now_ms + 10)], log.head(1)) == {}
    assert log.sessions == []
    assert found.receipts(1, [first], log.head(1)) == {first: receipt_of(commit)}


def test_written_commits_are_not_read_again(database: Database, world: World) -> None:
    log = ReadLog(database)
    keyed_commits(log, world, "a")
    found = projected_receipts(log, world)
    found.receipts(1, ["a"])
    (written,) = keyed_commits(log, world, "b")
    found.remember([written])
    log.sessions.clear()
    assert found.receipts(1, ["b"], written.head) == {"b": receipt_of(written)}
    assert log.sessions == []


def test_key_used_again_is_forgotten_last(database: Database, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first use has expired."""
    monkeypatch.setattr(receipts, "MAX_REMEMBERED_KEYS", 2)
    log = ReadLog(database)
    found = projected_receipts(log, world)
    keyed_commits(log, world, "a", "b")
    found.receipts(1, ["a"])
    world.now_ms += RECEIPT_STORED_S * 1000
    (again,) = keyed_commits(log, world, "a")
    keyed_commits(log, world, "c")
    assert found.receipts(1, ["a"]) == {"a": receipt_of(again)}
    assert list(found._logs[1].receipts) == ["a", "c"]


def test_commits_after_a_gap_are_not_remembered(database: Database, world: World) -> None:
    """Another process has written session 2. The process that has written session 3 still reads it."""
    log = ReadLog(database)
    keyed_commits(log, world, "a")
    found = projected_receipts(log, world)
    found.receipts(1, ["a"])
    theirs, ours = keyed_commits(log, world, "b", "c")
    found.remember([ours])
    assert found.receipts(1, ["b", "c"], ours.head) == {"b": receipt_of(theirs), "c": receipt_of(ours)}


def test_remembered_keys_are_shared_by_the_logs(
    database: Database, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "MAX_REMEMBERED_KEYS", 6)
    log, appender = ReadLog(database), world.appender(ReadLog(database))
    found = projected_receipts(log, world)
    for server in (1, 2, 3):
        for number in range(5):
            appender.append(append(server=server, request_id=f"{number}", idempotency_key=f"k{number}"))
        found.receipts(server, ["k1"])
    assert [list(each.receipts) for each in found._logs.values()] == [["k3", "k4"]] * 3
