"""Rebuilds the views of all logs from the log, for every store, also while the installation is in use."""

from collections.abc import Callable, Iterator

from chalicelib.domain.events.head import Head
from chalicelib.domain.organizations.organization import (
    DIRECTORY_SERVER,
    Organization,
    configuration_log,
    inbox_log,
    is_configuration_log,
)
from chalicelib.services.consumers.projector import rebuild
from chalicelib.services.jobs.job_timeouts import delete_retired_records
from chalicelib.wiring import Components
from infra.tools.progress import Progress


def rebuild_all(components: Components) -> None:
    """Rebuild the views of the directory, and of every organization with its configuration and inbox."""
    for log in _logs(components):
        _rebuild(components, log)


def rebuild_after(kept: Head, components: Components, progress: Callable[[int], None]) -> bool:
    """Rebuild the views of a log from the commits after `kept`. False if there are none.

    Then the old views stay: they may be the only record of the last session number.
    """
    if next(components.stores.log.read(kept.server, kept.session, 1), None) is None:
        return False
    stores, due = components.stores, components.consumers.due
    with_copies = stores.has_copies_in_views
    rebuild(kept.server, stores.log, stores.views, lambda done, _: progress(done), kept, with_copies, due.enter)
    delete_retired_records(kept.server, stores.views)
    return True


def _logs(components: Components) -> Iterator[Organization]:
    """Every log that has views, under a display name."""
    yield Organization("(organizations)", DIRECTORY_SERVER)
    for organization in components.log.organizations.all():
        yield organization
        yield Organization(f"{organization.name} (configuration)", configuration_log(organization.server))
        yield Organization(f"{organization.name} (inbox)", inbox_log(organization.server))


def _rebuild(components: Components, log: Organization) -> None:
    # The directory and the configuration have no retention.
    is_kept = is_configuration_log(log.server)
    kept = Head(log.server) if is_kept else components.log.stored_retention.boundary(log.server).head
    progress = Progress(log.name, components.stores.log.head(log.server).session, "commits")
    if rebuild_after(kept, components, progress.update):
        progress.finish(f"{log.name:20} views rebuilt")
