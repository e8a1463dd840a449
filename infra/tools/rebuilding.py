"""Rebuilding: the views of all logs built anew from what is kept of them, wherever they are, also while all goes on."""

from collections.abc import Callable, Iterator

from chalicelib.domain.events.head import Head
from chalicelib.domain.organizations.organization import DIRECTORY, Organization, inbox_of
from chalicelib.services.consumers.projector import rebuild
from chalicelib.wiring import Annals
from infra.tools.progress import Progress


def rebuild_all(parts: Annals) -> None:
    """The views of the directory, and of every organization and its inbox, one after the other."""
    for log in _logs(parts):
        _rebuild(parts, log)


def rebuild_after(kept: Head, parts: Annals, progress: Callable[[int], None]) -> bool:
    """Build the views of a log from what comes after `kept`; False, and they stay, if that is nothing.

    There would be nothing to build them from, and they may be all that remembers how far the numbers have come.
    """
    if next(parts.log.read(kept.server, kept.session, 1), None) is None:
        return False
    rebuild(kept.server, parts.log, parts.views, lambda done, _: progress(done), kept)
    return True


def _logs(parts: Annals) -> Iterator[Organization]:
    """Every log that has views, under a name for people."""
    yield Organization("(organizations)", DIRECTORY)
    for one in parts.organizations.all():
        yield one
        yield Organization(f"{one.name} (inbox)", inbox_of(one.server))


def _rebuild(parts: Annals, log: Organization) -> None:
    kept = parts.retention.forgotten(log.server).before if log.server != DIRECTORY else Head(DIRECTORY)
    progress = Progress(log.name, parts.log.head(log.server).session, "commits")
    if rebuild_after(kept, parts, progress.to):
        progress.end(f"{log.name:20} views rebuilt")
