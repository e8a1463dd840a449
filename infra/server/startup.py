"""Startup: open the data directory, or end the process with a message that says why that is not possible."""

import logging
from pathlib import Path
from typing import cast

from chalicelib.adapters.sqlite.library import check_library
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import LogBroken, Unusable
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, configuration_log, inbox_log
from chalicelib.services.admin import recovery
from chalicelib.settings import Settings
from chalicelib.wiring import Components, get_components
from infra.server.exits import exit_on_error

LOG, OUTBOX = "annals.sqlite", "outbox.sqlite"

_log = logging.getLogger("annals")


def check_sqlite() -> None:
    """Raise `Unusable` if this SQLite can corrupt the files."""
    check_library(allow_old=Settings.from_environment().allow_old_sqlite)


def open_components() -> Components:
    """The components of this process. Exits if the data directory cannot be used."""
    settings = Settings.from_environment()
    exit_on_error(lambda: check_log_exists(settings.data_dir))
    return exit_on_error(get_components)


def check_log_exists(data_dir: Path) -> None:
    """Raise `Unusable` if the log is missing but the outbox is not.

    A new log would use the same numbers again. The outbox would take its events for those it has already delivered.
    """
    log, outbox = data_dir / LOG, data_dir / OUTBOX
    if outbox.exists() and not (log.exists() and log.stat().st_size):
        raise Unusable(
            f"{log} is missing, but {outbox} exists. Restore the log from a backup. To start with an empty log, "
            f"move everything out of {data_dir}"
        )


def rewind_consumers(components: Components) -> None:
    """Set consumers back that are ahead of their log. Only for the process that starts first."""
    stores = components.stores
    outbox = cast(SqliteOutbox, stores.outbox)
    servers = [DIRECTORY_SERVER]
    for organization in components.log.organizations.all():
        servers += [organization.server, configuration_log(organization.server), inbox_log(organization.server)]
    for server in servers:
        try:
            rewinds = recovery.rewind_consumers(server, stores.log, stores.views, stores.progress, outbox.delete_after)
        except LogBroken as damage:
            # Everything else is served. Requests that need the damaged commit fail with the same message.
            _log.error("%s. Run `annals check`", damage)
            continue
        for message in rewinds:
            _log.warning("the log is shorter than before, perhaps after %s was restored: %s", LOG, message)


def check_checkpoints(components: Components) -> None:
    """Raise `Unusable` if the positions of the observers are damaged. They would notify again of all events."""
    try:
        cast(SqliteViews, components.stores.progress).check()
    except Unusable as damage:
        raise Unusable(
            f"{OUTBOX} is damaged: {damage}. Run `annals check`, then restore it from a backup (docs/operations.md)"
        ) from damage
