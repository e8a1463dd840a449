"""Time-driven work of all organizations, found by one range read of the due index.

The projector enters the deadlines that follow from new commits, before it moves its checkpoint. A run reads the entries
whose time has come, and checks them in rounds, in which each log has its turn. The work checks the exact state of each
object before it acts, and returns the deadlines that are still open, such as those that later events have moved. They
are entered again before the old entry is deleted, so a crash at any point loses no deadline. Concurrent runs are safe
for the same reason.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from chalicelib.domain.errors import DamagedRecord
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.organizations.organization import configuration_log, configured_log, is_configuration_log
from chalicelib.domain.views.due import DUE_VIEW, Deadline, DueEntry, due_entries, due_item_end
from chalicelib.domain.views.record import ConditionalWrite
from chalicelib.services.consumers.for_each import for_each, log_failures
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.ports import Clock, Views

MAX_ROUND_DEADLINES = 1_000
"""Limit per log and round, so that a log with many deadlines does not delay the others."""
MAX_LOG_DEADLINES = 4_000
"""Limit per log and run. A run also reads the entries beyond it, because those of other logs may follow."""
MAX_RUN_DEADLINES = 200_000
"""As many as 50 logs may have."""

_log = logging.getLogger("annals")

_Log = tuple[str, int]
"""Kind of work and server."""


class TimedWork(Protocol):
    """One kind of time-driven work."""

    def deadlines(self, commits: Sequence[Commit]) -> Iterable[Deadline]:
        """The deadlines that follow from consecutive commits of a log."""

    def check(self, server: int, deadlines: Sequence[Deadline], now_us: int) -> Iterable[Deadline]:
        """Act on deadlines before `now_us`, and return those to check later.

        Deadlines may be outdated or repeated. A deadline that is returned unchanged is checked again in the next run.
        """


@dataclass(frozen=True, slots=True)
class DueIndex:
    """The deadlines of all logs, and the work of each kind."""

    views: Views
    clock: Clock
    work: Mapping[str, TimedWork]
    stored_deadlines: Mapping[str, Callable[[int], Iterable[Deadline]]] = field(default_factory=dict)
    """By kind of work: the deadlines of a log that do not follow from its commits. The work has stored them."""

    def enter(self, server: int, commits: Sequence[Commit]) -> None:
        """Enter the deadlines that follow from consecutive commits of a log.

        Those of a configuration log concern the organization, so they are entered under its log.
        """
        owner = configured_log(server) if is_configuration_log(server) else server
        for kind, work in self.work.items():
            self.add(kind, owner, work.deadlines(commits))

    def add(self, kind: str, server: int, deadlines: Iterable[Deadline]) -> None:
        """Enter deadlines of a log."""
        self._put(due_entries(kind, server, deadlines))

    def run(
        self,
        has_time: Callable[[], bool] = lambda: True,
        on_error: Callable[[Mapping[_Log, Exception]], None] = log_failures,
    ) -> int:
        """Check the deadlines that have passed, until `has_time` returns False. Returns how many are settled.

        Logs have a limit per run, so the caller repeats the run until it returns 0.
        """
        now_us = self.clock() * 1000
        waiting = self._due_entries(now_us)
        failures: dict[_Log, Exception] = {}
        settled = 0

        def check(log: _Log) -> None:
            nonlocal settled
            entries = waiting.pop(log)
            if not has_time():
                return
            batch, rest = _split(entries)
            number, remaining = self._check(log, batch, now_us)
            settled += number
            # A log whose work settles nothing waits for the next run.
            if number and (remaining or rest):
                waiting[log] = [*remaining, *rest]

        while waiting:
            for_each(list(waiting), check, failures.update)
        if failures:
            on_error(failures)
        return settled

    def _due_entries(self, now_us: int) -> dict[_Log, list[DueEntry]]:
        entries: dict[_Log, list[DueEntry]] = {}
        counts: dict[_Log, int] = {}
        total = 0
        for entry in self._read(now_us):
            log = entry.kind, entry.server
            # A newer version may have entered kinds that this one does not know.
            if entry.kind in self.work and counts.get(log, 0) < MAX_LOG_DEADLINES:
                entries.setdefault(log, []).append(entry)
                counts[log] = counts.get(log, 0) + len(entry.deadlines)
                total += len(entry.deadlines)
            if total >= MAX_RUN_DEADLINES:
                break
        return entries

    def _check(self, log: _Log, entries: Sequence[DueEntry], now_us: int) -> tuple[int, list[DueEntry]]:
        """The number of deadlines that are settled, and the entries with others that have passed."""
        kind, server = log
        due = {deadline for entry in entries for deadline in entry.deadlines if deadline.due_us < now_us}
        if not due:
            return 0, []
        in_order = sorted(due, key=lambda deadline: deadline.due_us)
        open_deadlines = set(self.work[kind].check(server, in_order, now_us))
        settled = due - open_deadlines
        outdated = {entry for entry in entries if not settled.isdisjoint(entry.deadlines)}
        kept = {deadline for entry in outdated for deadline in entry.deadlines} - settled
        replacements = due_entries(kind, server, kept | (open_deadlines - due))
        self._put([entry for entry in replacements if entry not in outdated])
        self._delete(outdated.difference(replacements))
        remaining = [*replacements, *(entry for entry in entries if entry not in outdated)]
        return len(settled), [entry for entry in remaining if entry.deadlines[0].due_us < now_us]

    def _read(self, now_us: int) -> Iterator[DueEntry]:
        try:
            yield from map(DueEntry.from_record, self.views.range(DUE_VIEW, "", due_item_end(now_us)))
        except DamagedRecord as damaged:
            self._restore(damaged)

    def _restore(self, damaged: DamagedRecord) -> None:
        """Enter the deadlines of the log of a damaged entry again.

        If they follow from its commits, or from those of its configuration log, the projector starts over.
        """
        match damaged.item.split("/"):
            case [_, kind, number, _]:
                server = int(number)
            case _:
                raise damaged
        _log.warning("%s; the deadlines of log %s for '%s' are entered again", damaged, server, kind)
        if kind in self.stored_deadlines:
            records = [entry.to_record() for entry in due_entries(kind, server, self.stored_deadlines[kind](server))]
            # One of them may take the place of the damaged entry.
            self.views.put([ConditionalWrite(record, damaged.version) for record in records])
            self.views.put([ConditionalWrite(record, None) for record in records])
            if any(record.item == damaged.item for record in records):
                return
        else:
            for log in (server, configuration_log(server)):
                reset_views(log, self.views)
        self.views.delete(DUE_VIEW, [damaged.item])

    def _put(self, entries: Sequence[DueEntry]) -> None:
        # A refused entry is already stored with the same content.
        self.views.put([ConditionalWrite(entry.to_record(), None) for entry in entries])

    def _delete(self, entries: Iterable[DueEntry]) -> None:
        self.views.delete(DUE_VIEW, [entry.to_record().item for entry in entries])


def _split(entries: Sequence[DueEntry]) -> tuple[Sequence[DueEntry], Sequence[DueEntry]]:
    """The entries of the next round, and the others."""
    sizes = accumulate(len(entry.deadlines) for entry in entries)
    length = 1 + sum(size < MAX_ROUND_DEADLINES for size in sizes)
    return entries[:length], entries[length:]
