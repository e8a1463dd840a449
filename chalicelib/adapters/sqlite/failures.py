"""What a failure of SQLite means, and what can be done about it."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chalicelib.domain.errors import AnnalsError, Unavailable, Unusable, Unwritable

LEAST_BYTES = 128 * 1024
"""What SQLite needs beside the file to open it."""

_PRIMARY = 0xFF
"""The part of an error's code that says which kind it is."""
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_NOT_TEXT = "Could not decode"


class Answered:
    """Raise what it means if the file cannot be read or written: locked, full, read-only, gone or damaged."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Entered for every read and write, which is why this is not a generator."""

    def __exit__(self, _kind: object, failure: BaseException | None, _trace: object) -> None:
        if isinstance(failure, sqlite3.DatabaseError) and not isinstance(failure, sqlite3.IntegrityError):
            raise _meaning(failure, self._path) from failure


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Raise why the file cannot be opened, with its path and what to do: whoever reads it has no server yet."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as failure:
        raise Unwritable(f"{path.parent} cannot be made: {failure.strerror}. {_ELSEWHERE}") from failure
    except sqlite3.DatabaseError as failure:
        raise _refusal(failure, path) from failure


_ELSEWHERE = "Make it writable, or set DATA_DIR to another directory"
_RESTORE = "`annals check` says where; then restore it from a backup (docs/operations.md)"


def _meaning(failure: sqlite3.DatabaseError, path: Path) -> AnnalsError:
    """The names of directories are nothing for whoever sent the request."""
    match _kind(failure):
        case sqlite3.SQLITE_FULL:
            return Unwritable(f"the disk is full: {path.name} cannot grow, and nothing was written")
        case sqlite3.SQLITE_READONLY:
            return Unwritable(f"{path.name} is read-only: nothing was written")
        case sqlite3.SQLITE_IOERR if _is_on_a_read_only_disk(path):
            return Unwritable(f"the disk has become read-only: nothing was written to {path.name}")
        case kind if kind in _DAMAGED or str(failure).startswith(_NOT_TEXT):
            return Unusable(f"{path.name} is damaged: {failure}; `annals check` says where")
        case _:
            return Unavailable(f"the database does not answer: {failure}")


def _refusal(failure: sqlite3.DatabaseError, path: Path) -> AnnalsError:
    kind = _kind(failure)
    if kind in _DAMAGED:
        return Unusable(f"{path} is damaged: {failure}. {_RESTORE}")
    if kind == sqlite3.SQLITE_BUSY:
        return Unavailable(f"{path} is in use by another process that does not let go of it")
    if path.is_dir():
        return Unusable(f"{path} is a directory, where a database should be. Set DATA_DIR to another directory")
    unwritable = next((one for one in (path.parent, path) if one.exists() and not os.access(one, os.W_OK)), None)
    if unwritable is not None:
        return Unwritable(f"{unwritable} cannot be written to. {_ELSEWHERE}")
    if kind == sqlite3.SQLITE_FULL or shutil.disk_usage(path.parent).free < LEAST_BYTES:
        return Unwritable(f"the disk is full: {path} cannot be opened. Free some space")
    return Unavailable(f"{path} cannot be opened: {failure}")


def _kind(failure: sqlite3.DatabaseError) -> int:
    """SQLite's own code; 0 if it is Python that complains."""
    code: int = getattr(failure, "sqlite_errorcode", 0)
    return code & _PRIMARY


def _is_on_a_read_only_disk(path: Path) -> bool:
    return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
