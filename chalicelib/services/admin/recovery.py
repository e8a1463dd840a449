"""Lost ends: a log that ends before those who followed it, for an older copy of it was put in its place.

What they have seen after its end is gone. Numbers will be given again, so nobody may take what comes for what was.
"""

from collections.abc import Callable

from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import PROJECT
from chalicelib.services.consumers.consumer import checkpoint_of
from chalicelib.services.consumers.projector import start_over
from chalicelib.services.notifications.matching import OBSERVE
from chalicelib.services.ports import Log, Views

Forget = Callable[[int, int], int]
"""Forgets the deliveries of a log that are about sessions after this one; how many."""


def step_back(server: int, log: Log, views: Views, progress: Views, forget: Forget) -> list[str]:
    """Have those who are ahead of the log step back to where it ends; which of them were, for people."""
    end = log.head(server)
    told = []
    projected = checkpoint_of(PROJECT, server, views)
    if not _is_there(projected.head, log, end):
        start_over(server, views)
        told.append(f"views knew {_words(projected.head, end)}: they are built anew")
    observed = checkpoint_of(OBSERVE, server, progress)
    if not _is_there(observed.head, log, end):
        forget(server, end.session)
        progress.put([observed.moved(OBSERVE, end)])
        told.append(f"observers were told up to {_words(observed.head, end)}: they go on from there")
    return told


def _is_there(seen: Head, log: Log, end: Head) -> bool:
    """Whether the log has what was seen last, or has forgotten it since."""
    commit = log.commit(seen.server, seen.session) if seen.session else None
    return seen.session <= end.session if commit is None else commit.head == seen


def _words(seen: Head, end: Head) -> str:
    return f"session {seen.session} of log {end.server}, which ends at {end.session}"
