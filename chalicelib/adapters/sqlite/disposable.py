"""A SQLite file whose content can be rebuilt: it has page checksums, and is emptied when it is damaged.

Records have checksums of their own, but only a checksum of the whole page shows that a record is missing because its
key or a pointer to it is damaged.

Threads and locks as in `Database`. Any process may empty the file at any time, while others use it. A process notices
that with its next write, which is refused: it may be based on records that no longer exist.
"""

import ctypes
import logging
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import apsw
from apsw import sqlite_extra

from chalicelib.adapters.sqlite.database import BUSY_TIMEOUT_S, Database
from chalicelib.adapters.sqlite.failures import translate_open_errors
from chalicelib.domain.errors import Unavailable, Unusable, ViewsReset

CHECKSUM_BYTES = 8
"""Reserved at the end of each page. The VFS verifies pages of files that reserve exactly this number."""
RESERVED_OFFSET = 20
"""Position of the number of reserved bytes in the header of the file."""
VFS = "cksmvfs"
EXTENSION = "cksumvfs"

_NO_TABLE = "no such table"

_log = logging.getLogger("annals")


class DisposableDatabase(Database):
    """A `Database` that is emptied if it is damaged, or if another version of Annals wrote it."""

    def __init__(self, path: Path, schema: str) -> None:
        self._tables = schema
        try:
            check_reserved_bytes(path)
            super().__init__(path, self._new_schema(), durable=False, upgrades=(_discard,))
        except Unusable as reason:
            self._path = path
            self._empty(reason)
            super().__init__(path, self._new_schema(), durable=False, upgrades=(_discard,))
        self._content_id = self._writer.pragma("application_id")

    def query(self, statement: str, values: Any = ()) -> list[Any]:
        """The rows of a query. Raises `ViewsReset` if the file was damaged."""
        try:
            return super().query(statement, values)
        except Unusable as damage:
            raise self._reset(damage) from damage
        except Unavailable as failure:
            # A process that emptied the file did not create the tables again.
            if _NO_TABLE in str(failure):
                raise self._reset(Unusable(_NO_TABLE)) from failure
            raise

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """A transaction. Raises `ViewsReset` if the file was damaged, or if another process has emptied it."""
        try:
            with super().transaction() as connection:
                content_id = connection.pragma("application_id")
                if content_id != self._content_id:
                    self._content_id = content_id
                    raise ViewsReset(f"{self._path.name} was damaged and is rebuilt from the log")
                yield connection
        except Unusable as damage:
            raise self._reset(damage) from damage

    def _reset(self, damage: Unusable) -> ViewsReset:
        with self._write_lock:
            self._empty(damage)
            self._schema = self._new_schema()
            with closing(self._connect(apsw.SQLITE_OPEN_CREATE)) as connection:
                self._prepare(connection)
                self._content_id = connection.pragma("application_id")
        return ViewsReset(f"{self._path.name} was damaged and is rebuilt from the log")

    def _empty(self, reason: Unusable) -> None:
        """Remove all content in place, so that processes that have opened the file see that it is empty."""
        _log.warning("%s is emptied and rebuilt from the log: %s", self._path.name, reason)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        with translate_open_errors(self._path), closing(self._open(flags)) as connection:
            connection.set_busy_timeout(int(BUSY_TIMEOUT_S * 1000))
            connection.pragma("checksum_verification", 0)
            # Only a connection that has read the schema keeps the journal mode, so that others need not be closed.
            with suppress(apsw.Error):
                connection.execute("SELECT count(*) FROM sqlite_master")
            connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
            connection.execute("VACUUM")
            connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)
            connection.pragma("user_version", 0)
            with suppress(apsw.BusyError):  # Another process is reading. A later checkpoint shortens the file.
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _new_schema(self) -> str:
        """The tables, and a random id. It differs whenever the file is emptied, so that other processes notice it."""
        return f"{self._tables.rstrip().rstrip(';')};\nPRAGMA application_id = {secrets.randbelow(2**31 - 1) + 1};"

    def _open(self, flags: int) -> apsw.Connection:
        if not has_page_checksums():
            return super()._open(flags)
        connection = apsw.Connection(self._path.absolute().as_uri(), flags, vfs=VFS)
        # Only a new or an emptied file takes the number from here.
        reserved = ctypes.c_int(CHECKSUM_BYTES)
        connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(reserved))
        return connection


def _discard(connection: apsw.Connection) -> None:
    del connection
    raise Unusable("its format is that of an older version")


def check_reserved_bytes(path: Path) -> None:
    """Raise `Unusable` if an existing file has no page checksums, or if the number in its header is damaged."""
    if has_page_checksums() and path.exists():
        with path.open("rb") as file:
            header = file.read(RESERVED_OFFSET + 1)
        if header and header[-1] != CHECKSUM_BYTES:
            raise Unusable("it has no page checksums")


@cache
def has_page_checksums() -> bool:
    """Load the extension of SQLite that verifies page checksums. Some builds of apsw do not contain it."""
    if not sqlite_extra.has(EXTENSION):
        return False
    default = apsw.vfs_names()[0]
    with closing(apsw.Connection(":memory:")) as connection:
        sqlite_extra.load(connection, EXTENSION)
    # The extension makes itself the default, but the other files have no page checksums.
    apsw.set_default_vfs(default)
    return True
