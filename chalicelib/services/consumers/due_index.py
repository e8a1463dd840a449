"""Time-driven work of all organizations, found by one range read of the due index.

The projector enters the deadlines that follow from new commits, before it moves its checkpoint. A run reads the entries
whose time has come. The work checks the exact state of each object before it acts, and returns the deadlines that are
still open, such as those that later events have moved. They are entered again before the old entry is deleted, so a
crash at any point loses no deadline. Concurrent runs are safe for the same reason.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from chalicelib.domain.errors import DamagedRecord
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.organizations.organization import configuration_log, configured_log, is_configuration_log
from chalicelib.domain.views.due import DUE_VIEW, Deadline, DueEntry, due_entries, due_item_end
from chalicelib.domain.views.record import ConditionalWrite
from chalicelib.services.consumers.for_each import for_each, log_failures
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.ports import Clock, Views

MAX_LOG_DEADLINES = 1_000
"""Limit per log and run, so that a log with many deadlines does not delay the others."""
MAX_RUN_DEADLINES = 50_000

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

    def enter(self, server: int, commits: Sequence[Commit]) -> None:
        """Enter the deadlines that follow from consecutive commits of a log.

        Those of a configuration log concern the organization, so they are entered under its log.
        """
        owner = configured_log(server) if is_configuration_log(server) else server
        for kind, work in self.work.items():
            self._put(due_entries(kind, owner, work.deadlines(commits)))

    def run(
        self,
        has_time: Callable[[], bool] = lambda: True,
        on_error: Callable[[Mapping[_Log, Exception]], None] = log_failures,
    ) -> int:
        """Check the deadlines that have passed, until `has_time` returns False. Returns how many are settled.

        Logs have a limit per run, so the caller repeats the run until it returns 0.
        """
        now_us = self.clock() * 1000
        settled = 0

        def check(log: _Log) -> None:
            nonlocal settled
            if has_time():
                settled += self._check(log, entries[log], now_us)

        entries = self._due_entries(now_us)
        for_each(entries, check, on_error)
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

    def _check(self, log: _Log, entries: Sequence[DueEntry], now_us: int) -> int:
        kind, server = log
        deadlines = {deadline for entry in entries for deadline in entry.deadlines}
        due = {deadline for deadline in deadlines if deadline.due_us < now_us}
        if not due:
            return 0
        in_order = sorted(due, key=lambda deadline: deadline.due_us)
        open_deadlines = set(self.work[kind].check(server, in_order, now_us))
        settled = due - open_deadlines
        if settled:
            remaining = due_entries(kind, server, (deadlines - due) | open_deadlines)
            self._put([entry for entry in remaining if entry not in entries])
            self._delete([entry for entry in entries if entry not in remaining])
        return len(settled)

    def _read(self, now_us: int) -> Iterator[DueEntry]:
        try:
            yield from map(DueEntry.from_record, self.views.range(DUE_VIEW, "", due_item_end(now_us)))
        except DamagedRecord as damaged:
            self._restore(damaged)

    def _restore(self, damaged: DamagedRecord) -> None:
        """Delete a damaged entry. The projector starts over, and enters the deadlines of its logs again."""
        match damaged.item.split("/"):
            case [_, kind, server, _]:
                pass
            case _:
                raise damaged
        _log.warning("%s; the deadlines of log %s for '%s' are entered again", damaged, server, kind)
        for log in (int(server), configuration_log(int(server))):
            reset_views(log, self.views)
        self.views.delete(DUE_VIEW, [damaged.item])

    def _put(self, entries: Sequence[DueEntry]) -> None:
        # A refused entry is already stored with the same content.
        self.views.put([ConditionalWrite(entry.to_record(), None) for entry in entries])

    def _delete(self, entries: Sequence[DueEntry]) -> None:
        self.views.delete(DUE_VIEW, [entry.to_record().item for entry in entries])
