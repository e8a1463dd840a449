"""Permissions of the data directory: only the user who runs the server can read it."""

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from chalicelib.adapters.sqlite.files import create_directory

OWNER_ONLY = 0o077
"""The umask under which new directories have mode 0700 and new files 0600."""
_OUR_FILES = ("*.sqlite", "*.sqlite-wal", "*.sqlite-shm", "jwt.key")

_log = logging.getLogger("annals")


def open_data_directory(data_dir: Path, *, is_private: bool) -> None:
    """Create the directory if necessary.

    If it is private, remove the access of other users to it and to the files that this process creates from now on.
    """
    if is_private:
        os.umask(OWNER_ONLY)
    create_directory(data_dir)
    if is_private:
        files = [path for pattern in _OUR_FILES for path in data_dir.glob(pattern)]
        # A directory with the sticky bit, such as /tmp, is shared on purpose.
        is_shared = bool(data_dir.stat().st_mode & stat.S_ISVTX)
        _remove_access_of_others(files if is_shared else [data_dir, *files])


def _remove_access_of_others(paths: Iterable[Path]) -> None:
    changed: list[str] = []
    for path in paths:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & OWNER_ONLY:
                path.chmod(mode & ~OWNER_ONLY)
                changed.append(f"{path} (mode {mode:04o})")
        except OSError as error:
            _log.warning("the access of other users to %s cannot be removed: %s", path, error.strerror)
    if changed:
        _log.info("removed the access of other users to %s. PRIVATE_DATA=no keeps it", ", ".join(changed))
