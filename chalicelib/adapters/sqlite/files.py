"""Create the directory of a database, and detect that its files were moved, deleted or replaced."""

import os
import time
from pathlib import Path

from chalicelib.domain.errors import Unwritable

MIN_UNCHANGED_NS = 100_000_000
"""A directory whose last change is this old gets a new timestamp with its next change.

File systems count time in ticks of a few milliseconds, so two changes may share a timestamp. Timestamps of file systems
that count whole seconds are not trusted at all.
"""
MAKE_WRITABLE = "Make it writable, or set DATA_DIR to another directory"
_SECOND_NS = 1_000_000_000

_Stat = tuple[int, int, int]
"""Device, inode and modification time."""


def create_directory(path: Path) -> None:
    """Create a directory and its parents, if they do not exist. The new directories survive a power failure."""
    try:
        for folder in reversed([folder for folder in (path, *path.parents) if not folder.is_dir()]):
            folder.mkdir(exist_ok=True)
            parent = os.open(folder.parent, os.O_RDONLY)
            try:
                os.fsync(parent)
            finally:
                os.close(parent)
    except OSError as failure:
        raise Unwritable(f"{path} cannot be created: {failure.strerror}. {MAKE_WRITABLE}") from failure


class FileGuard:
    """Checks that the database and its write-ahead log are still the files that were opened.

    Writes to a file that was moved, deleted or replaced would be lost when the process ends.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._paths = str(path), f"{path}-wal"
        self._identities = self._current_identities()
        self._folder = "" if path.is_symlink() else str(path.parent)
        """Moving, deleting or replacing a file changes its directory. Behind a link that is another directory."""
        self._verified_folder: _Stat | None = None
        """State of the directory when the files were last found in place."""

    def check(self) -> None:
        """Raise `Unwritable` if a file is gone.

        Called before each write. An unchanged directory proves that the files are in place. That is faster than `stat`
        on the write-ahead log, which is slow right after a write.
        """
        folder = _stat(self._folder)
        if folder is not None and folder == self._verified_folder:
            return
        if self._current_identities() != self._identities:
            raise Unwritable(f"{self._name} was moved, deleted or replaced: nothing was written. Restart the server")
        if folder is not None and folder[2] % _SECOND_NS and time.time_ns() - folder[2] > MIN_UNCHANGED_NS:
            self._verified_folder = folder

    def _current_identities(self) -> list[tuple[int, int] | None]:
        """Device and inode of each file."""
        return [stat and stat[:2] for stat in map(_stat, self._paths)]


def _stat(name: str) -> _Stat | None:
    try:
        stat = os.stat(name)  # noqa: PTH116  (faster than Path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns
