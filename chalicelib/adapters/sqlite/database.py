"""The SQLite file: its schema, one connection that writes, a few that read."""

import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

from chalicelib.adapters.sqlite.failures import Answered, opening
from chalicelib.adapters.sqlite.files import Files
from chalicelib.domain.errors import Unusable

SCHEMA_VERSION = 1
IDLE_READERS = 8
BUSY_S = 5.0

LOG_SCHEMA = """
CREATE TABLE log (
    place INTEGER PRIMARY KEY,  -- server * 2**40 + session: one tree, and appending goes to its end
    at    INTEGER NOT NULL,     -- EventId of the first event
    n     INTEGER NOT NULL,     -- how many events
    prev  INTEGER NOT NULL,     -- EventId of the last event of the session before
    req   TEXT NOT NULL,        -- id of the request that wrote it
    body  TEXT NOT NULL         -- the events, a JSON array with one event a line
) STRICT;
CREATE TABLE receipt (
    server  INTEGER NOT NULL,
    key     TEXT NOT NULL,      -- the Idempotency-Key
    digest  TEXT NOT NULL,      -- equal for equal requests
    session INTEGER NOT NULL,   -- the commit that answered it
    req     TEXT NOT NULL,      -- id of the request that wrote it
    expires INTEGER NOT NULL,   -- seconds since 1970
    PRIMARY KEY (server, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX receipt_expires ON receipt (expires);
"""


_TABLE = re.compile(r"CREATE TABLE (\w+)")


class Database:
    """One file. Writers take turns; readers see what was committed when they began.

    A `durable` one has a transaction on the disk when it ends; another may lose the latest ones with the power. Who
    writes waits `busy_s` at most for another process that writes.
    """

    def __init__(self, path: Path, schema: str = LOG_SCHEMA, durable: bool = True, busy_s: float = BUSY_S) -> None:
        self._path = path
        self._answered = Answered(path)
        self._schema = schema
        # In WAL mode FULL is what makes COMMIT wait for the disk; NORMAL loses the latest, but never damages.
        self._synchronous = "FULL" if durable else "NORMAL"
        self._turn = threading.Lock()
        self._readers: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._watcher: sqlite3.Connection | None = None
        self._version = 0
        with opening(path):
            self._writer = self._connect("rwc")
            self._writer.execute("BEGIN IMMEDIATE")
            with self._writer as connection:
                self._prepare(connection)
            self._writer.execute(f"PRAGMA busy_timeout = {int(busy_s * 1000)}")
        self._files = Files(path)
        self._transaction = _Transaction(self._writer, self._turn, self._answered, self._files)

    def write(self, statement: str, values: Sequence[int | str]) -> None:
        """One statement, a transaction by itself: done when this returns, or as if it had not been begun."""
        with self._turn:
            self._files.check()
            with self._answered:
                self._writer.execute(statement, values)

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """A transaction; nothing of it remains if the block raises."""
        return self._transaction

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read with."""
        with self._answered:
            try:
                connection = self._readers.get_nowait()
            except Empty:
                connection = self._connect()
            try:
                yield connection
            finally:
                if self._readers.qsize() < IDLE_READERS:
                    self._readers.put(connection)
                else:
                    connection.close()

    def has_changed(self) -> bool:
        """Tell whether another process may have written since this was asked last."""
        with self._answered:
            if self._watcher is None:
                self._watcher = self._connect()
            (version,) = self._watcher.execute("PRAGMA data_version").fetchone()
        was, self._version = self._version, version
        return bool(version != was)

    def close(self) -> None:
        """Let go of the file; all that was committed is in it."""
        with self._turn:
            while not self._readers.empty():
                self._readers.get_nowait().close()
            if self._watcher is not None:
                self._watcher.close()
            self._writer.close()

    def _connect(self, mode: str = "rw") -> sqlite3.Connection:
        """A connection; only the first one makes a file if there is none."""
        address = f"{self._path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(address, timeout=BUSY_S, isolation_level=None, check_same_thread=False, uri=True)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new file; refuse a file that is not ours."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise Unusable(f"{self._path} was written by a newer Annals (format {version}): use that one")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if version == 0 and not tables:
            for statement in self._schema.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif not tables.issuperset(_TABLE.findall(self._schema)):
            raise Unusable(f"{self._path} is a database of something else. Set DATA_DIR to another directory")


class _Transaction:
    """What one writer after the other does: it is done with the block, or as if it had not been begun."""

    __slots__ = ("_answered", "_connection", "_files", "_turn")

    def __init__(self, connection: sqlite3.Connection, turn: threading.Lock, answered: Answered, files: Files) -> None:
        self._connection = connection
        self._turn = turn
        self._answered = answered
        self._files = files

    def __enter__(self) -> sqlite3.Connection:
        self._turn.acquire()
        try:
            self._files.check()
            with self._answered:
                self._connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            self._turn.release()
            raise
        return self._connection

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        try:
            with self._answered:
                self._end(failure is None)
            self._answered.__exit__(kind, failure, trace)
        finally:
            self._turn.release()

    def _end(self, is_good: bool) -> None:
        try:
            if is_good:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
