"""Opening: the parts of a process on this machine, or its end with a sentence that says why."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.views import SCHEMA
from chalicelib.domain.errors import AnnalsError, Unusable
from chalicelib.domain.organizations.organization import DIRECTORY, inbox_of
from chalicelib.services.admin import recovery
from chalicelib.settings import Settings
from chalicelib.wiring import Annals, annals

T = TypeVar("T")

LOG, OUTBOX, VIEWS = "annals.sqlite", "outbox.sqlite", "views.sqlite"

_log = logging.getLogger("annals")


def opened() -> Annals:
    """The parts of this process; its end if the data cannot be used."""
    settings = Settings.from_environment()
    or_end(lambda: refuse_lost_log(settings.data_dir))
    return or_end(annals)


def refuse_lost_log(data_dir: Path) -> None:
    """A new log beside an old outbox would give its numbers again: what is told of them would be taken for told."""
    log, outbox = data_dir / LOG, data_dir / OUTBOX
    if outbox.exists() and not (log.exists() and log.stat().st_size):
        raise Unusable(
            f"{log} is gone, but {outbox} is not. Restore it from a backup, or, to begin with an empty log, "
            f"move all of {data_dir} away"
        )


def step_back(parts: Annals) -> None:
    """Only for who starts first: whoever followed a log further than it goes steps back to its end."""
    outbox = cast(SqliteOutbox, parts.outbox)
    servers = (one for each in parts.organizations.all() for one in (each.server, inbox_of(each.server)))
    for server in (DIRECTORY, *servers):
        for words in recovery.step_back(server, parts.log, parts.views, parts.progress, outbox.forget_after):
            _log.warning("the end of a log is lost, by an older copy of %s perhaps; %s", LOG, words)


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
