"""A SQLite file: its schema, one connection for writes and a pool of connections for reads.

Threads: any thread may read or write. Writers take turns, readers never wait. One thread at a time uses a connection.
Locks: `_write_lock` protects the write connection. It is held from BEGIN to COMMIT, and while the database is closed.
"""

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from chalicelib.adapters.sqlite.failures import ErrorTranslator, translate_open_errors
from chalicelib.adapters.sqlite.files import FileGuard
from chalicelib.domain.errors import Unusable

LOG_VERSION = 2
"""Version of the log's schema. `log_upgrade` upgrades it step by step."""
MAX_IDLE_READERS = 8
BUSY_TIMEOUT_S = 5.0

UPGRADED_COLUMNS = (
    "before INTEGER NOT NULL DEFAULT 0",
    "by TEXT NOT NULL DEFAULT ''",
    "key TEXT NOT NULL DEFAULT ''",
    "digest TEXT NOT NULL DEFAULT ''",
    "crc INTEGER NOT NULL DEFAULT -1",
)
"""Columns that version 0.1.0 did not have, with the values of commits that are not upgraded yet."""
DELETED_KEYS_SCHEMA = """
CREATE TABLE deleted_key (      -- idempotency keys of commits that retention has deleted within a day
    key    TEXT NOT NULL,
    place  INTEGER NOT NULL,
    digest TEXT NOT NULL,
    at     INTEGER NOT NULL,    -- EventId of the commit
    PRIMARY KEY (key, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX deleted_key_at ON deleted_key (at);
"""
LOG_SCHEMA = f"""
CREATE TABLE log (
    place INTEGER PRIMARY KEY,  -- server * 2**40 + session, so that a log is a contiguous range
    at    INTEGER NOT NULL,     -- EventId of the first event
    n     INTEGER NOT NULL,     -- number of events
    prev  INTEGER NOT NULL,     -- EventId of the last event of the previous session
    req   TEXT NOT NULL,        -- id of the request that wrote it
    body  TEXT NOT NULL,        -- the events, a JSON array with one event per line
    -- before: number of events in the log before it. by: subject of the token that published it. key: the
    -- Idempotency-Key, and digest: digest of its request. crc: CRC-32 of all columns, see Commit.checksum.
    {", ".join(UPGRADED_COLUMNS)}
) STRICT;
CREATE INDEX log_key ON log (key, place) WHERE key <> '';
{DELETED_KEYS_SCHEMA}"""

Upgrade = Callable[[apsw.Connection], None]
"""Changes the tables of a file from one version of its schema to the next, within a transaction."""

_TABLE_NAME = re.compile(r"CREATE TABLE (\w+)")


class Database:
    """One file. Readers see the state that was committed when they began.

    A transaction of a `durable` database is on disk when it ends. Without `durable` a power failure may lose the latest
    ones. A write waits at most `busy_timeout_s` for a writer in another process.

    A new file gets the tables of `schema`. Version 1 of the schema needs no upgrade, and `upgrades[0]` makes version 2
    of it. A file of an older version is upgraded when it is opened, each upgrade in a transaction of its own.
    """

    def __init__(
        self,
        path: Path,
        schema: str = LOG_SCHEMA,
        durable: bool = True,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        upgrades: Sequence[Upgrade] = (),
    ) -> None:
        self._path = path
        self._version = LOG_VERSION if schema == LOG_SCHEMA else 1 + len(upgrades)
        self._translate_errors = ErrorTranslator(path)
        self._schema = schema
        self._upgrades = upgrades
        # In WAL mode COMMIT waits for the disk only with FULL. NORMAL may lose transactions, but never corrupts.
        self._synchronous = "FULL" if durable else "NORMAL"
        self._write_lock = threading.Lock()
        self._readers: SimpleQueue[apsw.Connection] = SimpleQueue()
        self._change_detector: apsw.Connection | None = None
        self._data_version = 0
        with translate_open_errors(path):
            self._writer = self._connect(apsw.SQLITE_OPEN_CREATE)
            try:
                self._prepare(self._writer)
            except BaseException:
                self._writer.close()
                raise
            self._writer.set_busy_timeout(int(busy_timeout_s * 1000))
        self._file_guard = FileGuard(path)
        self._transaction = _Transaction(self._writer, self._write_lock, self._translate_errors, self._file_guard)

    def write(self, statement: str, values: Sequence[int | str]) -> None:
        """Execute one statement as a transaction. If it raises, nothing was written."""
        with self._write_lock:
            self._file_guard.check()
            with self._translate_errors:
                self._writer.execute(statement, values)

    def transaction(self) -> AbstractContextManager[apsw.Connection]:
        """A transaction. It is rolled back if the block raises."""
        return self._transaction

    def query(self, statement: str, values: Sequence[int | str] = ()) -> list[Any]:
        """The rows of a query, as tuples."""
        with self._translate_errors:
            try:
                connection = self._readers.get_nowait()
            except Empty:
                connection = self._connect()
            try:
                return connection.execute(statement, values).fetchall()
            finally:
                if self._readers.qsize() < MAX_IDLE_READERS:
                    self._readers.put(connection)
                else:
                    connection.close()

    def has_changed(self) -> bool:
        """Whether this or another process may have written since the previous call. For one thread only."""
        with self._translate_errors:
            if self._change_detector is None:
                self._change_detector = self._connect()
            version = self._change_detector.pragma("data_version")
        previous_version, self._data_version = self._data_version, version
        return bool(version != previous_version)

    def close(self) -> None:
        with self._write_lock:
            while not self._readers.empty():
                self._readers.get_nowait().close()
            if self._change_detector is not None:
                self._change_detector.close()
            self._writer.close()

    def _connect(self, flags: int = 0) -> apsw.Connection:
        """Open a connection. Without `SQLITE_OPEN_CREATE` it fails if the file does not exist."""
        connection = self._open(flags | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
        connection.set_busy_timeout(int(BUSY_TIMEOUT_S * 1000))
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", self._synchronous)
        return connection

    def _open(self, flags: int) -> apsw.Connection:
        return apsw.Connection(self._path.absolute().as_uri(), flags)

    def _prepare(self, connection: apsw.Connection) -> None:
        """Create the tables of a new file, or upgrade an old one. Raise `Unusable` if it is not of this schema."""
        names = set(_TABLE_NAME.findall(self._schema))
        connection.execute("BEGIN IMMEDIATE")
        stored_version = connection.pragma("user_version")
        if stored_version > self._version:
            raise Unusable(
                f"{self._path} was written by a newer version of Annals (format {stored_version}). Use that version"
            )
        tables = _tables(connection)
        if stored_version == 0 and not tables:
            connection.execute(self._schema)
            connection.pragma("user_version", self._version)
        connection.execute("COMMIT")
        if tables & names:
            self._upgrade(connection)
        if not _tables(connection) >= names:
            raise Unusable(f"{self._path} is a database of another application. Set DATA_DIR to another directory")

    def _upgrade(self, connection: apsw.Connection) -> None:
        for version, upgrade in enumerate(self._upgrades, start=2):
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have upgraded the file meanwhile.
            if connection.pragma("user_version") < version:
                upgrade(connection)
                connection.pragma("user_version", version)
            connection.execute("COMMIT")


def _tables(connection: apsw.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


class _Transaction:
    """Context of a write transaction. One object serves all of them, because the lock admits one at a time."""

    __slots__ = ("_connection", "_file_guard", "_lock", "_translate_errors")

    def __init__(
        self,
        connection: apsw.Connection,
        lock: threading.Lock,
        translate_errors: ErrorTranslator,
        file_guard: FileGuard,
    ) -> None:
        self._connection = connection
        self._lock = lock
        self._translate_errors = translate_errors
        self._file_guard = file_guard

    def __enter__(self) -> apsw.Connection:
        self._lock.acquire()
        try:
            self._file_guard.check()
            with self._translate_errors:
                self._connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            self._lock.release()
            raise
        return self._connection

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        try:
            with self._translate_errors:
                self._end(commit=failure is None)
            self._translate_errors.__exit__(kind, failure, trace)
        finally:
            self._lock.release()

    def _end(self, *, commit: bool) -> None:
        try:
            if commit:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
