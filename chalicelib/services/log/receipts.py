"""Receipts: which commit a request with an idempotency key has written.

A key is an append condition: fail if a commit with this key exists within 24 hours. The key is part of the commit, so
no second write is needed. The conditional write of the commit covers requests with the same key at the same time.
"""

from collections.abc import Collection

from chalicelib.domain.log.append import RECEIPT_TTL_S, Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.receipt import RECEIPTS_VIEW, receipt_from_record
from chalicelib.services.clock import wall_clock
from chalicelib.services.ports import Clock, Receipts
from chalicelib.services.reading.log_reader import LogReader

MAX_CLOCK_SKEW_S = 3600


class ProjectedReceipts:
    """Finds keys in the views, and in the commits after the checkpoint of the views. Implements `Receipts`."""

    def __init__(self, reader: LogReader, legacy: Receipts | None = None, clock: Clock = wall_clock) -> None:
        self._reader = reader
        self._clock = clock
        self._legacy = legacy
        """Receipts that an earlier version has stored elsewhere."""

    def receipts(self, server: int, keys: Collection[str]) -> dict[str, Receipt]:
        reader = self._reader
        checkpoint, records = reader.read_views(
            server, lambda checkpoint: reader.views.get(checkpoint.view_name(RECEIPTS_VIEW), list(keys))
        )
        receipts = {key: receipt_from_record(record) for key, record in records.items()}
        # While the views are rebuilt, the commits after their checkpoint are many. Old ones do not matter.
        expired_us = (self._clock() - (RECEIPT_TTL_S + MAX_CLOCK_SKEW_S) * 1000) * 1000
        start = checkpoint.head
        if start.last_event_id < expired_us:
            start = max(start, reader.position_at(server, expired_us), key=lambda head: head.session)
        for commit in reader.tail(start):
            if commit.idempotency_key in keys:
                receipts[commit.idempotency_key] = receipt_of(commit)
        if self._legacy is not None and (others := [key for key in keys if key not in receipts]):
            receipts.update(self._legacy.receipts(server, others))
        return receipts


def receipt_of(commit: Commit) -> Receipt:
    return Receipt(commit.digest, commit.session, commit.at_us)
