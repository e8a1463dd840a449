"""The log file of version 0.1.0 is upgraded in place, whenever the upgrade is interrupted."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import apsw
import pytest

from chalicelib.adapters.sqlite import log_upgrade
from chalicelib.adapters.sqlite.database import LOG_VERSION, Database
from chalicelib.adapters.sqlite.log import MAX_SESSIONS, SqliteLog
from chalicelib.adapters.sqlite.log_upgrade import upgrade_log
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit, verify_contiguous
from tests.builders import NOW_S, a_text

SCHEMA_0_1_0 = """
CREATE TABLE log (
    place INTEGER PRIMARY KEY,
    at    INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    prev  INTEGER NOT NULL,
    req   TEXT NOT NULL,
    body  TEXT NOT NULL
) STRICT;
CREATE TABLE receipt (
    server  INTEGER NOT NULL,
    key     TEXT NOT NULL,
    digest  TEXT NOT NULL,
    session INTEGER NOT NULL,
    req     TEXT NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (server, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX receipt_expires ON receipt (expires);
PRAGMA user_version = 1;
"""
LOGS = {-2: 1, 0: 3, 1: 25, 7: 4}
"""Commits by log. Commit s has s % 3 + 1 events."""
SILENT = (0, 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of version 0.1.0. Of log 7, retention has deleted the first two commits."""
    path = tmp_path / "annals.sqlite"
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("journal_mode", "wal")
        connection.execute(SCHEMA_0_1_0)
        for server, commits in LOGS.items():
            for session in range(3 if server == 7 else 1, commits + 1):
                n = session % 3 + 1
                body = "[" + ",\n".join(a_text(f"/ü/{session}/{i}") for i in range(n)) + "]"
                prev = 0 if session == 1 else (session - 1) * 1_000 + (session - 1) % 3
                row = (server * MAX_SESSIONS + session, session * 1_000, n, prev, f"r{session}", body)
                connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", row)
        for server, session, key in ((1, 4, "four"), (1, 25, "last"), (7, 2, "deleted")):
            receipt = (server, key, f"digest of {key}", session, f"r{session}", NOW_S)
            connection.execute("INSERT INTO receipt VALUES (?, ?, ?, ?, ?, ?)", receipt)
    return path


def read_all(path: Path) -> dict[int, list[Commit]]:
    with closing(Database(path)) as database:
        log = SqliteLog(database)
        return {server: list(verify_contiguous(log.start(server), log.read(server, 0))) for server in LOGS}


def test_upgrade_adds_positions_and_keys(path: Path) -> None:
    upgrade_log(path, lambda *_: None)
    logs = read_all(path)
    assert {server: len(commits) for server, commits in logs.items()} == {-2: 1, 0: 3, 1: 25, 7: 2}
    for commits in logs.values():
        positions = [event.position for commit in commits for event in commit.events]
        assert positions == list(range(1, len(positions) + 1))
    assert [commit.session for commit in logs[1] if commit.idempotency_key] == [4, 25]
    with closing(Database(path)) as database:
        log = SqliteLog(database)
        assert log.receipt(1, "four") == Receipt("digest of four", 4, 4_000)
        assert log.receipt(7, "deleted") == Receipt("digest of deleted", 2, (NOW_S - 86_400) * 1_000_000)
        assert log.head(1) == Head(1, 25, 2, 25_001)
        assert database.query("PRAGMA user_version") == [(LOG_VERSION,)]


def test_upgrade_reports_progress(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_upgrade, "BATCH_COMMITS", 10)
    shown: list[tuple[int, int]] = []
    upgrade_log(path, lambda done, total: shown.append((done, total)))
    assert shown == [(10, 31), (20, 31), (30, 31), (31, 31)]


def test_upgraded_file_is_left_alone(path: Path) -> None:
    upgrade_log(path, lambda *_: None)
    before, shown = read_all(path), []
    upgrade_log(path, lambda done, total: shown.append((done, total)))
    assert (read_all(path), shown) == (before, [])


def test_upgrade_of_new_or_missing_file_does_nothing(tmp_path: Path) -> None:
    missing, new = tmp_path / "missing.sqlite", tmp_path / "new.sqlite"
    Database(new).close()
    for path in (missing, new):
        upgrade_log(path, lambda *_: pytest.fail("nothing to upgrade"))
    assert not missing.exists()


def test_damaged_commit_is_reported_after_upgrade(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE log SET body = CAST(x'5bff5d' AS TEXT) WHERE place = ?", (MAX_SESSIONS + 5,))
    upgrade_log(path, lambda *_: None)
    with closing(Database(path)) as database:
        log = SqliteLog(database)
        assert [commit.session for commit in log.read(1, 5)] == list(range(6, 26))
        assert next(log.read(1, 5)).before == 11
        with pytest.raises(Exception, match="damaged"):
            list(log.read(1, 4))


def test_checksum_of_every_column_is_verified(path: Path) -> None:
    upgrade_log(path, lambda *_: None)
    place = MAX_SESSIONS + 4
    changes = {"at": 1, "prev": 1, "n": 9, "req": "x", "body": "[]", "before": 1, "by": "x", "key": "x", "digest": "x"}
    for column, value in changes.items():
        with closing(apsw.Connection(str(path))) as connection:
            old = connection.execute(f"SELECT {column} FROM log WHERE place = {place}").get
            connection.execute(f"UPDATE log SET {column} = ? WHERE place = {place}", (value,))
        with closing(Database(path)) as database:
            log = SqliteLog(database)
            with pytest.raises(LogBroken, match="session 4 of server 1 is damaged: its checksum is wrong"):
                log.commit(1, 4)
            assert log.commit(1, 5) is not None
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute(f"UPDATE log SET {column} = ? WHERE place = {place}", (old,))


def upgrade_until(path: Path, step: int) -> None:
    """In a child process: upgrade, and die in the transaction with number `step`, before or after its end."""
    steps = count()
    transaction = log_upgrade._transaction

    @contextmanager
    def dying_transaction(connection: apsw.Connection) -> Iterator[None]:
        with transaction(connection):
            yield
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    log_upgrade._transaction = dying_transaction
    log_upgrade.BATCH_COMMITS = 7
    upgrade_log(path, lambda *_: None)


def test_killed_upgrade_is_resumed(path: Path, tmp_path: Path) -> None:
    reference = tmp_path / "reference" / path.name
    reference.parent.mkdir()
    reference.write_bytes(path.read_bytes())
    upgrade_log(reference, lambda *_: None)
    expected = read_all(reference)
    for step in count():
        copy = tmp_path / f"killed-{step}" / path.name
        copy.parent.mkdir()
        copy.write_bytes(path.read_bytes())
        child = multiprocessing.get_context("fork").Process(target=upgrade_until, args=(copy, step))
        child.start()
        child.join()
        upgrade_log(copy, lambda *_: None)
        assert read_all(copy) == expected
        if child.exitcode == 0:
            break
    assert step > 10
