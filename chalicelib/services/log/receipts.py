"""Receipts: which commit a request with an idempotency key has written.

A key is an append condition: fail if a commit with this key exists within 24 hours. The key is part of the commit, so
no second write is needed. The conditional write of the commit covers requests with the same key at the same time.

Threads: any thread may call `receipts`. `_lock` protects `_tails` and the entries in it, and is never held while
reading a store.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import RECEIPT_STORED_S, Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.receipt import RECEIPTS_VIEW, receipt_from_record
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.clock import wall_clock
from chalicelib.services.ports import Clock, Receipts
from chalicelib.services.reading.log_reader import LogReader

MAX_REMEMBERED_KEYS = 50_000
"""Of a log. If the views lag behind by more, the other commits are read again with each lookup."""
MAX_REMEMBERED_LOGS = 100
MIN_FORGOTTEN_SESSIONS = 1_000
"""Keys that the views contain are forgotten together, once they are from this many commits."""


@dataclass(slots=True)
class _TailKeys:
    """The keys of all commits after `start` and up to `end`."""

    start: Head
    end: Head
    receipts: dict[str, Receipt] = field(default_factory=dict)

    def add(self, commit: Commit) -> None:
        """Add a commit if it is the next one and there is room."""
        is_next = commit.session == self.end.session + 1 and commit.previous_event_id == self.end.last_event_id
        if is_next and len(self.receipts) < MAX_REMEMBERED_KEYS:
            self.end = commit.head
            if commit.idempotency_key:
                self.receipts[commit.idempotency_key] = receipt_of(commit)

    def covers(self, head: Head) -> bool:
        return self.start.session <= head.session <= self.end.session

    def forget_before(self, head: Head) -> None:
        """Forget the keys up to `head`, which the views contain."""
        if head.session - self.start.session >= MIN_FORGOTTEN_SESSIONS:
            self.receipts = {key: each for key, each in self.receipts.items() if each.session > head.session}
            self.start = head


class ProjectedReceipts:
    """Finds keys in the views, and in the commits after the checkpoint of the views. Implements `Receipts`."""

    def __init__(self, reader: LogReader, legacy: Receipts | None = None, clock: Clock = wall_clock) -> None:
        self._reader = reader
        self._clock = clock
        self._legacy = legacy
        """Receipts that an earlier version has stored elsewhere."""
        self._lock = threading.Lock()
        self._tails: dict[int, _TailKeys] = {}
        """By server. They stay true, because commits never change, and each lookup reads newer commits."""

    def receipts(self, server: int, keys: Collection[str]) -> dict[str, Receipt]:
        # Replaced views are kept longer than a checkpoint is remembered, so no record is missing.
        checkpoint, receipts = self._reader.read_views(
            server, lambda checkpoint: self._read(checkpoint, keys), is_complete=lambda _: True
        )
        others = [key for key in keys if key not in receipts]
        if self._legacy is not None and others and self._may_have_legacy(checkpoint):
            receipts.update(self._legacy.receipts(server, others))
        return receipts

    def _may_have_legacy(self, checkpoint: Checkpoint) -> bool:
        """Whether the earlier version may have written a key that is still valid. It did not build these views."""
        return not checkpoint.begun_at_ms or self._clock() < checkpoint.begun_at_ms + RECEIPT_STORED_S * 1000

    def _read(self, checkpoint: Checkpoint, keys: Collection[str]) -> dict[str, Receipt]:
        reader, start = self._reader, checkpoint.head
        records = reader.views.get(checkpoint.view_name(RECEIPTS_VIEW), list(keys))
        receipts = {key: receipt_from_record(record) for key, record in records.items()}
        # While the views are rebuilt, the commits after their checkpoint are many. Old ones do not matter.
        expired_us = (self._clock() - RECEIPT_STORED_S * 1000) * 1000
        if start.last_event_id < expired_us:
            start = max(start, reader.position_at(start.server, expired_us), key=lambda head: head.session)
        return {**receipts, **self._tail_receipts(start, keys)}

    def _tail_receipts(self, start: Head, keys: Collection[str]) -> dict[str, Receipt]:
        """The receipts of `keys` in the commits after `start`, of which only those not known yet are read."""
        with self._lock:
            tail = self._tails.get(start.server)
            if tail is None or not tail.covers(start):
                if len(self._tails) >= MAX_REMEMBERED_LOGS:
                    self._tails.clear()
                tail = self._tails[start.server] = _TailKeys(start, start)
            tail.forget_before(start)
            end = tail.end
            found = {key: tail.receipts[key] for key in keys if key in tail.receipts}
        try:
            for commit in self._reader.tail(end):
                with self._lock:
                    tail.add(commit)
                if commit.idempotency_key in keys:
                    found[commit.idempotency_key] = receipt_of(commit)
        except LogBroken:
            # If an older copy of the log was restored, the known commits are not part of it.
            with self._lock:
                self._tails.pop(start.server, None)
            raise
        return found


def receipt_of(commit: Commit) -> Receipt:
    return Receipt(commit.digest, commit.session, commit.at_us)
