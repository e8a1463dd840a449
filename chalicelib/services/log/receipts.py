"""Receipts: which commit a request with an idempotency key has written.

A key is an append condition: fail if a commit with this key exists within 24 hours. The key is part of the commit, so
no second write is needed. The conditional write of the commit covers requests with the same key at the same time.

A process remembers the keys of the last commits of each log: of those it has read, and of those it has written. A key
is looked up in the views only if it may be in an earlier commit. A key whose time is later than that of all keys in
earlier commits is not, see `key_time.py`.

Threads: any thread may call any method. `_lock` protects `_logs` and the entries in it, and is never held while reading
a store.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from chalicelib.domain.errors import CommitsDeleted, LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import RECEIPT_STORED_S, Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.log.key_time import clipped_key_ms, is_later, latest_key_ms, latest_unknown_key_ms
from chalicelib.domain.views.receipt import RECEIPTS_VIEW, receipt_from_record
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.clock import wall_clock
from chalicelib.services.ports import Clock
from chalicelib.services.reading.log_reader import LogReader

MAX_REMEMBERED_KEYS = 200_000
"""Of all logs, about 100 MB. Each log may use the same share."""
MAX_REMEMBERED_LOGS = 100

LegacyReceipts = Callable[[int, Collection[str]], Mapping[str, Receipt]]
"""Looks up keys that an earlier version has stored elsewhere."""


@dataclass(slots=True)
class _RecentKeys:
    """The keys of all commits after session `start` and up to `end`, except for expired ones."""

    start: int
    end: Head
    latest_key_ms: int
    """No key that is not in `receipts` has a later time, in the commits up to `end`."""
    receipts: OrderedDict[str, Receipt] = field(default_factory=OrderedDict)
    """By key, in the order of the commits."""

    def add(self, commit: Commit, max_keys: int) -> None:
        """Add a commit if it is the next one."""
        if commit.session != self.end.session + 1 or commit.previous_event_id != self.end.last_event_id:
            return
        self.end = commit.head
        if commit.before is None:
            self.latest_key_ms = max(self.latest_key_ms, latest_key_ms(commit))
        if commit.idempotency_key:
            self.receipts[commit.idempotency_key] = receipt_of(commit)
            self.receipts.move_to_end(commit.idempotency_key)
            self.forget(max_keys)

    def forget(self, max_keys: int) -> None:
        """Forget the oldest keys."""
        while len(self.receipts) > max_keys:
            key, receipt = self.receipts.popitem(last=False)
            self.start = receipt.session
            self.latest_key_ms = max(self.latest_key_ms, clipped_key_ms(key, receipt.at_us))

    def find(self, keys: Collection[str]) -> dict[str, Receipt]:
        return {key: self.receipts[key] for key in keys if key in self.receipts}


class ProjectedReceipts:
    """Finds keys in memory, in the commits that are not known yet, and in the views. Implements `Receipts`."""

    def __init__(self, reader: LogReader, legacy: LegacyReceipts | None = None, clock: Clock = wall_clock) -> None:
        self._reader = reader
        self._clock = clock
        self._legacy = legacy
        self._lock = threading.Lock()
        self._logs: dict[int, _RecentKeys] = {}
        """By server. They stay true, because commits never change."""

    def receipts(self, server: int, keys: Collection[str], head: Head | None = None) -> dict[str, Receipt]:
        recent, found = self._read_recent(server, keys, head)
        now_ms = self._clock()
        # The bound only grows. If a key is later now, it also was when the commits were searched.
        unknown = [key for key in keys if key not in found and not is_later(key, recent.latest_key_ms, now_ms)]
        return {**found, **self._look_up(recent, unknown)} if unknown else found

    def read_end(self, server: int) -> Head | None:
        """None if no keys of the log are remembered, or if their commits were deleted."""
        with self._lock:
            recent = self._logs.get(server)
        if recent is None:
            return None
        try:
            self._read_tail(recent, ())
        except (CommitsDeleted, LogBroken):
            return None  # The next lookup starts over.
        return recent.end

    def remember(self, commits: Sequence[Commit]) -> None:
        with self._lock:
            for commit in commits:
                recent = self._logs.get(commit.server)
                if recent is not None:
                    recent.add(commit, self._max_keys())

    def _read_recent(
        self, server: int, keys: Collection[str], head: Head | None
    ) -> tuple[_RecentKeys, dict[str, Receipt]]:
        """The recent keys, which contain those of all commits up to `head`, and the receipts of `keys` among them."""
        with self._lock:
            recent = self._logs.get(server)
            if recent is not None and head is not None and head.session <= recent.end.session:
                return recent, recent.find(keys)
        if recent is not None:
            try:
                found = self._read_tail(recent, keys)
                if head is None or head.session <= recent.end.session:
                    return recent, found
            except (CommitsDeleted, LogBroken):
                # Retention has deleted commits. Or an older copy of the log was restored.
                pass
            with self._lock:
                self._logs.pop(server, None)
        # Replaced views are kept longer than a checkpoint is remembered, so no record is missing.
        return self._reader.read_views(server, lambda checkpoint: self._load(checkpoint, keys), lambda _: True)[1]

    def _look_up(self, recent: _RecentKeys, keys: Sequence[str]) -> dict[str, Receipt]:
        """The receipts of keys that are not among the recent ones, or were forgotten meanwhile."""
        checkpoint, receipts = self._reader.read_views(
            recent.end.server,
            lambda checkpoint: self._read(checkpoint, recent, keys),
            is_complete=lambda _: True,
            min_session=recent.start,
        )
        others = [key for key in keys if key not in receipts]
        if self._legacy is not None and others and self._may_have_legacy(checkpoint):
            receipts.update(self._legacy(checkpoint.head.server, others))
        return receipts

    def _may_have_legacy(self, checkpoint: Checkpoint) -> bool:
        """Whether the earlier version may have written a key that is still valid. It did not build these views."""
        return not checkpoint.begun_at_ms or self._clock() < checkpoint.begun_at_ms + RECEIPT_STORED_S * 1000

    def _read(self, checkpoint: Checkpoint, recent: _RecentKeys, keys: Sequence[str]) -> dict[str, Receipt]:
        """The receipts in the views, and in the commits after `checkpoint`."""
        records = self._reader.views.get(checkpoint.view_name(RECEIPTS_VIEW), keys)
        receipts = {key: receipt_from_record(record) for key, record in records.items()}
        with self._lock:
            if recent.start <= checkpoint.head.session:
                return {**receipts, **recent.find(keys)}
        # The views lag behind by more commits than are remembered.
        return {**receipts, **self._load(checkpoint, keys)[1]}

    def _load(self, checkpoint: Checkpoint, keys: Collection[str]) -> tuple[_RecentKeys, dict[str, Receipt]]:
        """Read the commits after `checkpoint`, and remember their keys."""
        start, now_us = checkpoint.head, self._clock() * 1000
        bound_ms = checkpoint.latest_key_ms
        if not checkpoint.begun_at_ms:  # The log starts here, because retention has deleted the commits before.
            bound_ms = max(bound_ms, latest_unknown_key_ms(start.last_event_id))
        # While the views are rebuilt, the commits after their checkpoint are many. Old ones do not matter.
        expired_us = now_us - RECEIPT_STORED_S * 1_000_000
        if start.last_event_id < expired_us:
            start = max(start, self._reader.position_at(start.server, expired_us), key=lambda head: head.session)
        recent = _RecentKeys(checkpoint.head.session, start, bound_ms)
        found = self._read_tail(recent, keys)
        with self._lock:
            if start.server not in self._logs and len(self._logs) >= MAX_REMEMBERED_LOGS:
                self._logs.clear()
            self._logs[start.server] = recent
            for each in self._logs.values():
                each.forget(self._max_keys())
        return recent, found

    def _read_tail(self, recent: _RecentKeys, keys: Collection[str]) -> dict[str, Receipt]:
        """The receipts of `keys` among the recent ones, and in the commits after them, which are added."""
        with self._lock:
            end, found = recent.end, recent.find(keys)
        for commit in self._reader.tail(end):
            with self._lock:
                recent.add(commit, self._max_keys())
            if commit.idempotency_key in keys:
                found[commit.idempotency_key] = receipt_of(commit)
        return found

    def _max_keys(self) -> int:
        """Of one log. The caller holds the lock."""
        return MAX_REMEMBERED_KEYS // max(len(self._logs), 1)


def receipt_of(commit: Commit) -> Receipt:
    return Receipt(commit.digest, commit.session, commit.at_us)
