"""Exporting on AWS: the table's exports are started by schedule, and the history's job when their files arrive.

What was decided is in the ledger before it is done, and what is done can be asked for again, so a function that ends in
the middle is made good by the next one. A span that begins where another does is refused by the ledger: of two
functions at the same time only one gets its way.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, Protocol

from chalicelib.domain.errors import Busy
from chalicelib.domain.exports.export import FULL
from chalicelib.domain.exports.table_export import AGAIN_S, VIEW, Entry, TableExport, again, instead, next_entry
from chalicelib.domain.views.record import END
from chalicelib.services.ports import Clock, Views

MOST_OPEN = 64
"""So many of the latest exports are looked after; older ones are done, or beyond help."""
MOST_STARTED = 8
"""So many are started at once, if the schedule did not run for days."""

_log = logging.getLogger("annals")

Status = Literal["IN_PROGRESS", "COMPLETED", "FAILED"]


class TableExports(Protocol):
    """What AWS exports."""

    def start(self, export: TableExport) -> str | None:
        """The ARN of the export, started now or when it was asked for before; None if its span is too long ago."""

    def status(self, arn: str) -> Status:
        """How far it is."""


class Loading(Protocol):
    """The job that loads what was exported into the history."""

    def start(self) -> str | None:
        """The id of its run; None if it is running already, for that run may have seen too little."""


@dataclass(frozen=True, slots=True)
class TableExporting:
    """Keeps exports going, from the ledger to the history."""

    views: Views
    exports: TableExports
    loading: Loading
    clock: Clock

    def run(self) -> None:
        """By schedule: bring on what was begun, then start what has become due."""
        self._load([self._brought_on(entry) for entry in self._entries()])
        # Read again: another function may have been at it.
        entries = self._entries()
        last = entries[-1].export if entries else None
        for _ in range(MOST_STARTED):
            entry = next_entry(last, self._now_s())
            if entry is None or not self._keep(entry):
                return
            last = self._started(entry).export

    def arrived(self, ids: Sequence[str]) -> None:
        """The files of these exports are there, perhaps told again. Raises `Busy` if the job cannot start yet."""
        known = {entry.export.id: entry for entry in self._entries()}
        for unknown in [one for one in ids if one not in known]:
            _log.warning("export %s is none of ours", unknown)
        entries = [self._arrived(known[one]) for one in ids if one in known]
        if not self._load(entries):
            raise Busy("the history is being loaded; what has arrived is loaded after that")

    def _brought_on(self, entry: Entry) -> Entry:
        match entry.export.state:
            case "planned":
                return self._started(entry)
            case "started":
                return self._looked_after(entry)
            case _:
                return entry

    def _started(self, entry: Entry) -> Entry:
        arn = self.exports.start(entry.export)
        if arn is not None:
            return self._changed(entry, entry.became(self._now_s(), "started", arn=arn))
        # Point-in-time recovery has not been on for so long: all there is now takes the place of what was then.
        _log.warning("the span from %d to %d cannot be exported", entry.export.begin_s, entry.export.to_s)
        full = instead(entry, self._now_s())
        has_just_begun = entry.export.kind == FULL and entry.export.to_s == full.export.to_s
        if has_just_begun or not self._keep(full):
            return entry
        return self._started(full)

    def _looked_after(self, entry: Entry) -> Entry:
        match self.exports.status(entry.export.arn):
            case "COMPLETED":
                return self._arrived(entry)
            case "FAILED":
                _log.warning("export %s failed and is tried again", entry.export.arn)
                planned = again(entry, self._now_s())
                return self._started(planned) if self._keep(planned) else entry
            case _:
                return entry

    def _arrived(self, entry: Entry) -> Entry:
        if entry.export.state != "started":
            return entry
        return self._changed(entry, entry.became(self._now_s(), "arrived"))

    def _load(self, entries: Sequence[Entry]) -> bool:
        """Start the job for all that waits for it, unless there is nothing; False if it cannot start now."""
        now_s = self._now_s()
        waiting = [entry.became(now_s, "loading") for entry in entries if _waits(entry.export, now_s)]
        claimed = [entry for entry in waiting if self._keep(entry)]
        if not claimed:
            return True
        run = self.loading.start()
        for entry in claimed:
            self._keep(entry.became(now_s, "arrived") if run is None else entry.became(now_s, "loaded", run=run))
        return run is not None

    def _entries(self) -> list[Entry]:
        """The latest, from early to late."""
        records = islice(self.views.range(VIEW, "", END, backwards=True), MOST_OPEN)
        return [Entry.of(record) for record in records][::-1]

    def _changed(self, was: Entry, entry: Entry) -> Entry:
        """The entry, kept; if another function was first, what it was before: that one brings it on."""
        return entry if self._keep(entry) else was

    def _keep(self, entry: Entry) -> bool:
        return not self.views.put([entry.change()])

    def _now_s(self) -> int:
        return self.clock() // 1000


def _waits(export: TableExport, now_s: int) -> bool:
    return export.state == "arrived" or (export.state == "loading" and now_s - export.since_s > AGAIN_S)
