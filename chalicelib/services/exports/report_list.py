"""List the reports that are ready, according to their events in the log."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

MAX_REPORTS = 100
MAX_LINK_LENGTH = 2_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)
"""Names of report pages. Events with other names were published by hand and are ignored."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report that is ready."""

    name: str
    at_us: int
    event_id: int
    link: str | None
    """URL of the page, if the event contains an HTTP link."""


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of all organizations."""

    reader: LogReader
    retention: Retention

    def latest(self, server: int, name: str = "*", limit: int = MAX_REPORTS, before: int | None = None) -> list[Report]:
        """The latest reports, newest first, of all names or of one. Only those before an EventId, if it is given."""
        selection = Selection(types=(("report", "ready", name),))
        return list(islice(self._newest_first(server, selection, before), limit))

    def existing_name(self, server: int, name: str) -> str:
        """Return `name`. Raises `NotFound` if no report of this name is ready."""
        if _NAME.fullmatch(name) is None or not self.latest(server, name, limit=1):
            raise NotFound(f"there is no report '{name[:80]}'")
        return name

    def _newest_first(self, server: int, selection: Selection, before: int | None) -> Iterator[Report]:
        last_deleted = self.retention.boundary(server).event_id
        head = self.reader.log.head(server)
        end = head.last_event_id if before is None else min(before - 1, head.last_event_id)
        if end < head.last_event_id:
            # The commit after this position may contain events up to `end`.
            head = Head(server, self.reader.position_at(server, end).session + 1)
        for commit in self.reader.commits_before(head, selection):
            if commit.last_event_id <= last_deleted:
                return
            for event in reversed(commit.events):
                is_visible = last_deleted < event.event_id <= end
                if is_visible and selection.selects(event) and len(event.fields.type) == 3:
                    yield from _reports(event)


def _reports(event: Event) -> Iterator[Report]:
    name = event.fields.type[2]
    if _NAME.fullmatch(name):
        yield Report(name, event.at_us, event.event_id, _link(event))


def _link(event: Event) -> str | None:
    match event.fields.payload:
        case {"type": "json", "data": {"link": str(link)}} if link.startswith(("https://", "http://")):
            return link if len(link) <= MAX_LINK_LENGTH else None
        case _:
            return None
