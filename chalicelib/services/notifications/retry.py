"""Retry of parked deliveries."""

from collections.abc import Sequence

from chalicelib.services.ports import Outbox

BATCH_SIZE = 1_000


def retry_parked(outbox: Outbox, server: int, observer: str, ids: Sequence[str] | None) -> int:
    """Retry the parked deliveries with these ids, or all of them, and return how many there were."""
    if ids is not None:
        return outbox.retry(server, observer, ids)
    retried, after = 0, ""
    while batch := [parked.delivery.id for parked in outbox.parked(server, observer, after, BATCH_SIZE)]:
        retried += outbox.retry(server, observer, batch)
        after = batch[-1]
    return retried
