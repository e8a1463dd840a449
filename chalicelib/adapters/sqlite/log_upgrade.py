"""Upgrade the log file of version 0.1.0 in place: positions, checksums, and idempotency keys within the commits.

Each step is a transaction, so the upgrade may be interrupted at any point and resumes at the next start. Commits
without a checksum are those that are not upgraded yet.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from chalicelib.adapters.sqlite.database import DELETED_KEYS_SCHEMA, LOG_VERSION, UPGRADED_COLUMNS
from chalicelib.adapters.sqlite.failures import translate_open_errors
from chalicelib.domain.log.commit import Commit

BATCH_COMMITS = 500
NO_CHECKSUM = -1
_SESSIONS_PER_LOG = 2**40

ShowProgress = Callable[[int, int], None]
"""Gets the number of upgraded commits, and the number of all commits."""


def upgrade_log(path: Path, show: ShowProgress) -> None:
    """Upgrade the file if it has the format of version 0.1.0. Does nothing if it has another one, or does not exist."""
    if not path.exists():
        return
    with translate_open_errors(path), closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.set_busy_timeout(5_000)
        if connection.pragma("user_version") != 1 or not _columns(connection):
            return
        connection.pragma("synchronous", "FULL")
        with _transaction(connection):
            if "crc" not in _columns(connection):
                for column in UPGRADED_COLUMNS:
                    connection.execute(f"ALTER TABLE log ADD COLUMN {column}")
        with _transaction(connection):
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'receipt'").fetchone():
                _move_receipts(connection)
        _add_checksums(connection, show)
        with _transaction(connection):
            connection.execute("CREATE INDEX IF NOT EXISTS log_key ON log (key, place) WHERE key <> ''")
            connection.pragma("user_version", LOG_VERSION)


def _columns(connection: apsw.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('log')")}


def _move_receipts(connection: apsw.Connection) -> None:
    """Store the idempotency keys with their commits. Keys of deleted commits move to a table of their own."""
    place = f"receipt.server * {_SESSIONS_PER_LOG} + receipt.session"
    connection.execute(
        "UPDATE log SET key = receipt.key, digest = receipt.digest FROM receipt "  # noqa: S608  (constants)
        f"WHERE log.place = {place} AND log.req = receipt.req"
    )
    connection.execute(DELETED_KEYS_SCHEMA)
    connection.execute(
        "INSERT INTO deleted_key (key, place, digest, at) "  # noqa: S608  (constants)
        f"SELECT key, {place}, digest, (expires - 86400) * 1000000 FROM receipt "
        f"WHERE NOT EXISTS (SELECT 1 FROM log WHERE log.place = {place})"
    )
    connection.execute("DROP TABLE receipt")


def _add_checksums(connection: apsw.Connection, show: ShowProgress) -> None:
    total = connection.execute("SELECT count(*) FROM log").get
    done, after = 0, -(2**63)
    while True:
        with _transaction(connection):
            rows = _next_rows(connection, after)
            if not rows:
                return
            connection.executemany("UPDATE log SET before = ?, crc = ? WHERE place = ?", _checksums(connection, rows))
        done, after = done + len(rows), rows[-1][0]
        show(done, max(total, done))


def _next_rows(connection: apsw.Connection, after: int) -> list[tuple[int, int, int]]:
    query = "SELECT place, n, crc FROM log WHERE place > ? ORDER BY place LIMIT ?"
    rows: list[Any] = connection.execute(query, (after, BATCH_COMMITS)).fetchall()
    return rows


def _checksums(connection: apsw.Connection, rows: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Number of events before each commit, its checksum, and its place. Upgraded commits are skipped."""
    query = "SELECT at, n, prev, req, body, by, key, digest FROM log WHERE place = ?"
    previous_place, before = _previous(connection, rows[0][0])
    for place, event_count, checksum in rows:
        if place // _SESSIONS_PER_LOG != previous_place // _SESSIONS_PER_LOG:
            before = 0
        if checksum == NO_CHECKSUM:
            try:
                at, n, prev, request_id, body, by, key, digest = connection.execute(query, (place,)).get
            except UnicodeDecodeError:
                # A damaged commit stays without a checksum, so it is reported whenever it is read.
                yield before, NO_CHECKSUM, place
            else:
                log_and_session = divmod(place, _SESSIONS_PER_LOG)
                commit = Commit(*log_and_session, at, n, prev, request_id, body, before, by, key, digest)
                yield before, commit.checksum, place
        previous_place, before = place, before + event_count


def _previous(connection: apsw.Connection, place: int) -> tuple[int, int]:
    """The place of the commit before `place`, and the number of events up to it."""
    query = "SELECT place, before + n FROM log WHERE place < ? ORDER BY place DESC LIMIT 1"
    row = connection.execute(query, (place,)).fetchone()
    return (place, 0) if row is None else (row[0], row[1])


@contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
