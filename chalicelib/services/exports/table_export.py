"""Export the DynamoDB table by schedule, and start the history job when the files of an export have arrived.

The ledger records each decision before it is executed, and all calls to AWS can be repeated. So the next run completes
the work of an interrupted one. The ledger accepts only one span with the same begin, so that only one of two concurrent
functions proceeds.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, Protocol

from chalicelib.domain.errors import Busy
from chalicelib.domain.exports.export import FULL
from chalicelib.domain.exports.table_export import (
    EXPORTS_VIEW,
    JOB_START_TIMEOUT_S,
    LedgerEntry,
    TableExport,
    plan_full_export,
    plan_next,
    plan_retry,
)
from chalicelib.domain.views.record import MAX_CHARACTER
from chalicelib.services.ports import Clock, Views

MAX_TRACKED_EXPORTS = 64
"""Number of latest exports whose progress is checked. Older ones are loaded, or have failed for good."""
MAX_STARTS_PER_RUN = 8
"""Limit of exports that a run starts, for when the schedule was interrupted for days."""

_log = logging.getLogger("annals")

Status = Literal["IN_PROGRESS", "COMPLETED", "FAILED"]


class TableExports(Protocol):
    """Exports of the table by AWS."""

    def start(self, export: TableExport) -> str | None:
        """Start the export, unless it was started before, and return its ARN. None if AWS no longer has its span."""

    def status(self, arn: str) -> Status: ...


class HistoryJob(Protocol):
    """The job that loads exports into the history."""

    def start(self) -> str | None:
        """Start a run and return its id. None if a run is active, because it may have missed the latest files."""


@dataclass(frozen=True, slots=True)
class TableExporter:
    """Starts exports and loads them into the history."""

    views: Views
    exports: TableExports
    history_job: HistoryJob
    clock: Clock
    save_names: Callable[[], None]
    """Saves the names of the organizations for the reports that follow a load."""

    def run(self) -> None:
        """Check on the exports in progress, then start those that are due. Runs by schedule."""
        self._load([self._advance(entry) for entry in self._entries()])
        # Read again: a concurrent function may have changed the ledger.
        entries = self._entries()
        last = entries[-1].export if entries else None
        for _ in range(MAX_STARTS_PER_RUN):
            entry = plan_next(last, self._now_s())
            if entry is None or not self._save(entry):
                return
            last = self._start(entry).export

    def handle_complete(self, ids: Sequence[str]) -> None:
        """Load these exports, whose files have arrived, and those that wait for the job. Can be repeated.

        Raises `Busy` if the job cannot start yet. Call again when its run has ended.
        """
        entries = self._entries()
        for export_id in set(ids) - {entry.export.id for entry in entries}:
            _log.warning("ignored export %s, which is not in the ledger", export_id)
        if not self._load([self._mark_arrived(entry) if entry.export.id in ids else entry for entry in entries]):
            raise Busy("the history job is running. The new exports are loaded when it has ended")

    def _advance(self, entry: LedgerEntry) -> LedgerEntry:
        match entry.export.state:
            case "planned":
                return self._start(entry)
            case "started":
                return self._check_status(entry)
            case _:
                return entry

    def _start(self, entry: LedgerEntry) -> LedgerEntry:
        arn = self.exports.start(entry.export)
        if arn is not None:
            return self._save_or_keep(entry, entry.with_state(self._now_s(), "started", arn=arn))
        # Point-in-time recovery does not reach back that far. A full export of the current table replaces the span.
        _log.warning("the span from %d to %d cannot be exported", entry.export.begin_s, entry.export.to_s)
        full = plan_full_export(entry, self._now_s())
        is_same = entry.export.kind == FULL and entry.export.to_s == full.export.to_s
        if is_same or not self._save(full):
            return entry
        return self._start(full)

    def _check_status(self, entry: LedgerEntry) -> LedgerEntry:
        match self.exports.status(entry.export.arn):
            case "COMPLETED":
                return self._mark_arrived(entry)
            case "FAILED":
                _log.warning("export %s failed and is retried", entry.export.arn)
                planned = plan_retry(entry, self._now_s())
                return self._start(planned) if self._save(planned) else entry
            case _:
                return entry

    def _mark_arrived(self, entry: LedgerEntry) -> LedgerEntry:
        if entry.export.state != "started":
            return entry
        return self._save_or_keep(entry, entry.with_state(self._now_s(), "arrived"))

    def _load(self, entries: Sequence[LedgerEntry]) -> bool:
        """Start the job if there are exports to load. Returns False if it cannot start now."""
        now_s = self._now_s()
        loading = [entry.with_state(now_s, "loading") for entry in entries if _must_load(entry.export, now_s)]
        if loading:
            self.save_names()
        # A concurrent function may have claimed some of them.
        claimed = [entry for entry in loading if self._save(entry)]
        if not claimed:
            return True
        run = self.history_job.start()
        for entry in claimed:
            self._save(
                entry.with_state(now_s, "arrived") if run is None else entry.with_state(now_s, "loaded", run=run)
            )
        return run is not None

    def _entries(self) -> list[LedgerEntry]:
        """The latest entries of the ledger, oldest first."""
        records = islice(self.views.range(EXPORTS_VIEW, "", MAX_CHARACTER, backwards=True), MAX_TRACKED_EXPORTS)
        return [LedgerEntry.from_record(record) for record in records][::-1]

    def _save_or_keep(self, entry: LedgerEntry, changed: LedgerEntry) -> LedgerEntry:
        """Save `changed` and return it, or return `entry` if a concurrent function has changed the ledger first."""
        return changed if self._save(changed) else entry

    def _save(self, entry: LedgerEntry) -> bool:
        """Save an entry. Returns False if a concurrent function has changed it."""
        return not self.views.put([entry.to_write()])

    def _now_s(self) -> int:
        return self.clock() // 1000


def _must_load(export: TableExport, now_s: int) -> bool:
    return export.state == "arrived" or (export.state == "loading" and now_s - export.since_s > JOB_START_TIMEOUT_S)
