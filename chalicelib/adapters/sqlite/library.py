"""Refuse SQLite libraries that can corrupt a database in WAL mode."""

import apsw

from chalicelib.domain.errors import Unusable

MIN_VERSION = (3, 51, 3)
"""The first version without the WAL-reset bug: https://sqlite.org/wal.html#walresetbug"""


def check_library(*, allow_old: bool) -> None:
    """Raise `Unusable` if SQLite has the WAL-reset bug, unless the operator allows that."""
    version = apsw.sqlite_lib_version()
    if not allow_old and tuple(map(int, version.split("."))) < MIN_VERSION:
        raise Unusable(
            f"SQLite {version} can corrupt the log when several processes write to it (the WAL-reset bug). "
            "Install the apsw of requirements-embedded.txt, which includes a newer SQLite. "
            "To take the risk, set ALLOW_OLD_SQLITE=yes"
        )
