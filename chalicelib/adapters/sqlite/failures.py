"""Translate SQLite errors to errors of the domain, with advice for the operator."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from chalicelib.adapters.sqlite.files import MAKE_WRITABLE, create_directory
from chalicelib.domain.errors import AnnalsError, Unavailable, Unusable, Unwritable

MIN_FREE_BYTES = 128 * 1024
"""Free disk space that SQLite needs to open a file."""

_DAMAGED_CODES = {apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB}

READ_ERRORS = (apsw.Error, UnicodeDecodeError)
"""Errors of a query. A damaged text may be invalid UTF-8, which apsw reports as `UnicodeDecodeError`."""


def is_damage(failure: BaseException | None) -> bool:
    """Whether the error says that the content of a file is damaged. Page checksums are reported as I/O errors."""
    if isinstance(failure, UnicodeDecodeError):
        return True
    has_wrong_checksum = getattr(failure, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA
    return has_wrong_checksum or getattr(failure, "result", 0) in _DAMAGED_CODES


class ErrorTranslator:
    """A context that translates SQLite errors of reads and writes.

    It is a class and not a generator because it is entered for every read and write.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, failure: BaseException | None, _trace: object) -> None:
        if isinstance(failure, READ_ERRORS) and not isinstance(failure, apsw.ConstraintError):
            raise _runtime_error(failure, self._path) from failure


@contextmanager
def translate_open_errors(path: Path) -> Iterator[None]:
    """Translate errors of opening the file. Their messages are for the operator, with the full path and advice."""
    try:
        create_directory(path.parent)
        yield
    except READ_ERRORS as failure:
        raise _open_error(failure, path) from failure


_RESTORE = "Run `annals check` to see where, then restore it from a backup (docs/operations.md)"


def _runtime_error(failure: Exception, path: Path) -> AnnalsError:
    """The message goes to clients, so it contains the file name but no directory."""
    if is_damage(failure):
        return Unusable(f"{path.name} is damaged: {failure}. Run `annals check` to see where")
    match _primary_code(failure):
        case apsw.SQLITE_FULL:
            return Unwritable(f"the disk is full: {path.name} cannot grow, and nothing was written")
        case apsw.SQLITE_READONLY:
            return Unwritable(f"{path.name} is read-only: nothing was written")
        case apsw.SQLITE_IOERR if _is_on_read_only_disk(path):
            return Unwritable(f"the disk has become read-only: nothing was written to {path.name}")
        case _:
            return Unavailable(f"the database does not answer: {failure}")


def _open_error(failure: Exception, path: Path) -> AnnalsError:
    code = _primary_code(failure)
    if is_damage(failure):
        return Unusable(f"{path} is damaged: {failure}. {_RESTORE}")
    if code == apsw.SQLITE_BUSY:
        return Unavailable(f"{path} is locked by another process. Stop that process first")
    if path.is_dir():
        return Unusable(f"{path} is a directory, not a database file. Set DATA_DIR to another directory")
    unwritable = next((p for p in (path.parent, path) if p.exists() and not os.access(p, os.W_OK)), None)
    if unwritable is not None:
        return Unwritable(f"{unwritable} is not writable. {MAKE_WRITABLE}")
    if code == apsw.SQLITE_FULL or shutil.disk_usage(path.parent).free < MIN_FREE_BYTES:
        return Unwritable(f"the disk is full: {path} cannot be opened. Free some space")
    return Unavailable(f"{path} cannot be opened: {failure}")


def _primary_code(failure: Exception) -> int:
    """The primary result code of SQLite, or 0 if the error is not one of SQLite's."""
    code: int = getattr(failure, "result", 0)
    return code


def _is_on_read_only_disk(path: Path) -> bool:
    return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
