"""Exports of the DynamoDB table: the time span that each export covers, and its progress.

Each export begins where the previous one ended. The first is a full export. The others are incremental: they contain
the items written in their span, which AWS requires to be between 15 minutes and 24 hours long.
"""

from typing import Final, Literal

from pydantic_core import from_json

from chalicelib.domain.exports.export import FULL, INCREMENTAL, ExportKind
from chalicelib.domain.model import Model
from chalicelib.domain.views.record import ConditionalWrite, Record

MIN_SPAN_S: Final = 15 * 60
MAX_SPAN_S: Final = 24 * 3600
EXPORT_LAG_S: Final = 5 * 60
"""AWS may not be able to export more recent writes yet."""
JOB_START_TIMEOUT_S: Final = 15 * 60
"""A process that took over starting the jobs and has not reported for this long is considered dead."""

EXPORTS_VIEW: Final = "exports"
"""The view that is the ledger. The item is the begin of the span, so no two exports begin at the same time."""

ExportState = Literal["planned", "started", "arrived", "loading", "loaded"]


class TableExport(Model):
    """An export: `planned`, `started`, `arrived` as files, `loading` and `loaded` into the history."""

    begin_s: int
    """End of the previous export, 0 if there is none."""
    to_s: int
    kind: ExportKind
    state: ExportState = "planned"
    since_s: int
    """When the export entered this state."""
    tries: int = 1
    arn: str = ""
    run: str = ""
    """The run of the job that loads the export."""

    @property
    def id(self) -> str:
        """The name of the export's directory, empty before it has started."""
        return self.arn.rpartition("/")[2]

    @property
    def token(self) -> str:
        """Idempotency token of the current try: AWS starts one export per token."""
        return f"{self.begin_s}-{self.to_s}-{self.tries}"


class LedgerEntry(Model):
    """An export in the ledger."""

    export: TableExport
    version: int

    @classmethod
    def from_record(cls, record: Record) -> "LedgerEntry":
        return cls(export=TableExport.model_validate(from_json(record.data)), version=record.version)

    def with_state(self, now_s: int, state: ExportState, **changes: object) -> "LedgerEntry":
        """The next version of the entry, with the export in another state."""
        export = self.export.model_copy(update={"state": state, "since_s": now_s, **changes})
        return LedgerEntry(export=export, version=self.version + 1)

    def to_write(self) -> ConditionalWrite:
        """Store this entry in place of its previous version."""
        export = self.export
        record = Record(EXPORTS_VIEW, f"{export.begin_s:012d}", self.version, export.model_dump_json())
        return ConditionalWrite(record, self.version - 1 or None)


def plan_next(last: TableExport | None, now_s: int) -> LedgerEntry | None:
    """The export that follows `last`. None if its span would still be too short."""
    latest_s = now_s - EXPORT_LAG_S
    if last is None:
        return _new_entry(0, latest_s, FULL, now_s)
    if latest_s - last.to_s < MIN_SPAN_S:
        return None
    return _new_entry(last.to_s, min(latest_s, last.to_s + MAX_SPAN_S), INCREMENTAL, now_s)


def plan_retry(entry: LedgerEntry, now_s: int) -> LedgerEntry:
    """Another try of an export that AWS reported as failed."""
    return entry.with_state(now_s, "planned", arn="", tries=entry.export.tries + 1)


def plan_full_export(entry: LedgerEntry, now_s: int) -> LedgerEntry:
    """A full export in place of one whose span is older than AWS's point-in-time recovery."""
    return entry.with_state(
        now_s, "planned", arn="", tries=entry.export.tries + 1, kind=FULL, to_s=now_s - EXPORT_LAG_S
    )


def _new_entry(begin_s: int, to_s: int, kind: ExportKind, now_s: int) -> LedgerEntry:
    return LedgerEntry(export=TableExport(begin_s=begin_s, to_s=to_s, kind=kind, since_s=now_s), version=1)
