"""Reports: which there are, as the log says."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

MOST = 100

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)
"""Pages have such names; whoever publishes an event by hand may write others, and they are none of ours."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report that has become ready."""

    name: str
    at_us: int
    event_id: int
    link: str | None
    """Where its page is, if the event says so and browsers can go there."""


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of all organizations."""

    present: LogReader
    retention: Retention

    def latest(self, server: int, name: str = "*", most: int = MOST) -> list[Report]:
        """Those that became ready last, the newest first: of all names, or of one."""
        return list(islice(self._back(server, Selection(types=(("report", "ready", name),))), most))

    def checked(self, server: int, name: str) -> str:
        """`name` itself, if a report of this name has become ready."""
        if _NAME.fullmatch(name) is None or not self.latest(server, name, most=1):
            raise NotFound(f"there is no report '{name[:80]}'")
        return name

    def _back(self, server: int, selection: Selection) -> Iterator[Report]:
        forgotten = self.retention.forgotten(server).last
        for commit in self.present.back(self.present.log.head(server), selection):
            if commit.last <= forgotten:
                return
            for event in reversed(commit.events):
                if event.event_id > forgotten and selection.selects(event) and len(event.stored.type) == 3:
                    yield from _report(event)


def _report(event: Event) -> Iterator[Report]:
    name = event.stored.type[2]
    if _NAME.fullmatch(name):
        yield Report(name, event.at, event.event_id, _link(event))


def _link(event: Event) -> str | None:
    match event.stored.payload:
        case {"type": "json", "data": {"link": str(link)}} if link.startswith(("https://", "http://")):
            return link
        case _:
            return None
