"""Opening: the parts of a process on this machine, or its end with a sentence that says why."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from chalicelib.domain.errors import AnnalsError, Unusable
from chalicelib.store.sqlite.database import Database
from chalicelib.store.sqlite.views import SCHEMA
from chalicelib.wiring import Annals, annals

T = TypeVar("T")

VIEWS = "views.sqlite"

_log = logging.getLogger("annals")


def opened() -> Annals:
    """The parts of this process; its end if the data cannot be used."""
    return or_end(annals)


def or_end(begin: Callable[[], T]) -> T:
    """What `begin` gives, or the end of the process: people read what it could not do, not where in the code."""
    try:
        return begin()
    except AnnalsError as failure:
        sys.exit(f"annals: {failure}")
    except OSError as failure:
        sys.exit(f"annals: {failure.filename or 'no socket'}: {failure.strerror or failure}")


def throw_away_unusable_views(data_dir: Path) -> None:
    """Views that cannot be opened are built anew from the log. Only for who starts first: others may be using them."""
    path = data_dir / VIEWS
    try:
        Database(path, SCHEMA, durable=False).close()
    except Unusable as failure:
        _log.warning("the views are thrown away, and built anew from the log: %s", failure)
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            name.unlink(missing_ok=True)
