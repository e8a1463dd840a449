"""Rewind consumers after an older copy of a log was restored.

Consumers may have handled commits that the restored log does not have. New commits get the same sessions, and consumers
must not skip them.
"""

from collections.abc import Callable

from chalicelib.domain.errors import DamagedRecord, ViewsReset
from chalicelib.domain.events.head import Head
from chalicelib.domain.organizations.organization import configured_log, is_configuration_log
from chalicelib.domain.views.record import PROJECTOR
from chalicelib.services.calm.states import CalmStates
from chalicelib.services.consumers.checkpoints import OBSERVE_CONSUMER, load_checkpoint
from chalicelib.services.consumers.healing import heal, reset_views
from chalicelib.services.expectations.fold_store import delete_folds
from chalicelib.services.ports import Log, Views

DeleteDeliveries = Callable[[int, int], int]
"""Deletes the deliveries of a log about events after a session and returns how many."""


def rewind_consumers(
    server: int, log: Log, views: Views, progress: Views, delete_deliveries: DeleteDeliveries
) -> list[str]:
    """Rewind the consumers that are ahead of the log to its head. Returns a message for each of them."""
    head = log.head(server)
    messages = []
    try:
        projected = load_checkpoint(PROJECTOR, server, views)
    except (DamagedRecord, ViewsReset) as damage:
        if isinstance(damage, DamagedRecord):
            heal(views, damage)
        projected = load_checkpoint(PROJECTOR, server, views)
    if not _is_in_log(projected.head, log, head):
        reset_views(server, views)
        delete_folds(configured_log(server) if is_configuration_log(server) else server, views)
        messages.append(f"the views contained {_describe(projected.head, head)}. They are rebuilt")
    observed = load_checkpoint(OBSERVE_CONSUMER, server, progress)
    if not _is_in_log(observed.head, log, head):
        delete_deliveries(server, head.session)
        CalmStates(progress).forget_after(server, head.last_event_id)
        progress.put([observed.advance(OBSERVE_CONSUMER, head)])
        messages.append(f"observers were notified up to {_describe(observed.head, head)}. They resume there")
    return messages


def _is_in_log(checkpoint: Head, log: Log, head: Head) -> bool:
    """Whether the log contains the commit of a checkpoint, or retention has deleted it."""
    commit = log.commit(checkpoint.server, checkpoint.session) if checkpoint.session else None
    return checkpoint.session <= head.session if commit is None else commit.head == checkpoint


def _describe(checkpoint: Head, head: Head) -> str:
    return f"session {checkpoint.session} of log {head.server}, which ends at session {head.session}"
