"""Receipts: which commit a request with an idempotency key has written.

A key is an append condition: fail if a commit with this key exists within 24 hours. The key is part of the commit, so
no second write is needed. The conditional write of the commit covers requests with the same key at the same time.
"""

from chalicelib.domain.log.append import RECEIPT_STORED_S, Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.receipt import RECEIPTS_VIEW, receipt_from_record
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.clock import wall_clock
from chalicelib.services.ports import Clock, Receipts
from chalicelib.services.reading.log_reader import LogReader


class ProjectedReceipts:
    """Finds keys in the views, and in the commits after the checkpoint of the views. Implements `Receipts`."""

    def __init__(self, reader: LogReader, legacy: Receipts | None = None, clock: Clock = wall_clock) -> None:
        self._reader = reader
        self._clock = clock
        self._legacy = legacy
        """Receipts that an earlier version has stored elsewhere."""

    def receipt(self, server: int, key: str) -> Receipt | None:
        receipt = self._reader.read_views(server, lambda checkpoint: self._read(checkpoint, key))[1]
        if receipt is None and self._legacy is not None:
            return self._legacy.receipt(server, key)
        return receipt

    def _read(self, checkpoint: Checkpoint, key: str) -> Receipt | None:
        reader, start = self._reader, checkpoint.head
        record = reader.views.get(checkpoint.view_name(RECEIPTS_VIEW), [key]).get(key)
        receipt = None if record is None else receipt_from_record(record)
        # While the views are rebuilt, the commits after their checkpoint are many. Old ones do not matter.
        expired_us = (self._clock() - RECEIPT_STORED_S * 1000) * 1000
        if start.last_event_id < expired_us:
            start = max(start, reader.position_at(start.server, expired_us), key=lambda head: head.session)
        for commit in reader.tail(start):
            if commit.idempotency_key == key:
                receipt = receipt_of(commit)
        return receipt


def receipt_of(commit: Commit) -> Receipt:
    return Receipt(commit.digest, commit.session, commit.at_us)
