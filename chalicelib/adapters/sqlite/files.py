"""The files of a database, and whether they are still where they were."""

import os
import time
from pathlib import Path

from chalicelib.domain.errors import Unwritable

SETTLED_NS = 100_000_000
"""A directory that changed so long ago will not change again without a trace: file systems count time in ticks of some
milliseconds. Those that count in whole seconds are not believed at all."""
_S_NS = 1_000_000_000

_Look = tuple[int, ...]


class Files:
    """A database and its log of writes: what is written to others than our paths lead to is lost with this process."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._paths = str(path), f"{path}-wal"
        self._identities = self._found()
        self._folder = "" if path.is_symlink() else str(path.parent)
        """Whoever moves, deletes or replaces a file changes its directory; behind a link, that is another one."""
        self._seen: _Look | None = None
        """The directory as it was when it was settled, and the files in place."""

    def check(self) -> None:
        """Refuse if they are not. Asked before each write: to look at the log of writes itself takes long after one."""
        folder = _looked_at(self._folder)
        if folder is not None and folder == self._seen:
            return
        if self._found() != self._identities:
            raise Unwritable(f"{self._name} was moved, deleted or replaced: nothing was written; start again")
        if folder is not None and folder[2] % _S_NS and time.time_ns() - folder[2] > SETTLED_NS:
            self._seen = folder

    def _found(self) -> list[_Look | None]:
        """Which files they are that our paths lead to."""
        return [look and look[:2] for look in map(_looked_at, self._paths)]


def _looked_at(name: str) -> _Look | None:
    """Which one it is, and when it changed; None if there is none."""
    try:
        found = os.stat(name)  # noqa: PTH116  (a Path takes its time)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
