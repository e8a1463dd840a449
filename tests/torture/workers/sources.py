"""Different ways to read a log."""

import json
import random
from collections.abc import Iterable, Mapping
from itertools import islice, takewhile
from typing import Any, Protocol

from chalicelib.domain.log.commit import Commit, verify_contiguous
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.ports import Log
from chalicelib.services.reading.scan import find_position, scan
from tests.torture.checks.checker import parse_mark
from tests.torture.checks.evidence import ReadEvent
from tests.torture.workers.workload import SERVER

ALL_EVENTS = Selection()
LIMITS = (None, 1, 2, 7, 100)


class Source(Protocol):
    """A way to read a log."""

    def read_after(self, position: int) -> tuple[list[ReadEvent], int]:
        """Events after `position`, and the EventId up to which they are complete."""

    def extent(self) -> tuple[int, int]:
        """The first and last EventId, or zeros if the log is empty."""


class _LogSource:
    def __init__(self, log: Log, rng: random.Random) -> None:
        self._log = log
        self._rng = rng

    def extent(self) -> tuple[int, int]:
        first = self._log.commit(SERVER, 1)
        return (first.at_us, self._log.head(SERVER).last_event_id) if first else (0, 0)


class ScanSource(_LogSource):
    """Reads pages of different sizes, as queries do."""

    def read_after(self, position: int) -> tuple[list[ReadEvent], int]:
        start = find_position(self._log, self._log.head(SERVER), position)
        page = scan(self._log, start, position, ALL_EVENTS, self._rng.choice(LIMITS))
        return parse_events(page.texts), max(page.event_id, position)


class CommitSource(_LogSource):
    """Reads commits, as consumers do."""

    def read_after(self, position: int) -> tuple[list[ReadEvent], int]:
        start = find_position(self._log, self._log.head(SERVER), position)
        limit = self._rng.choice(LIMITS)
        events: list[ReadEvent] = []
        for commit in islice(verify_contiguous(start, self._log.read(SERVER, start.session, limit)), limit):
            events += _read_events(commit, position)
            position = max(position, commit.last_event_id)
        return events, position


class BackwardsSource(_LogSource):
    """Reads backwards from the head, as queries for the newest events do."""

    def read_after(self, position: int) -> tuple[list[ReadEvent], int]:
        head = self._log.head(SERVER)
        newer = takewhile(
            lambda commit: commit.last_event_id > position, self._log.read_backwards(SERVER, head.session + 1)
        )
        events = [event for commit in reversed(list(newer)) for event in _read_events(commit, position)]
        return events, max(position, head.last_event_id)


SOURCES = (ScanSource, CommitSource, BackwardsSource)


def parse_events(wires: Iterable[str]) -> list[ReadEvent]:
    events = map(json.loads, wires)
    return [ReadEvent(format_id(event), event["eventId"], parse_mark(event)) for event in events]


def format_id(event: Mapping[str, Any]) -> str:
    number = event["id"]
    return f"{number['server']}.{number['session']}.{number['instance']}"


def _read_events(commit: Commit, position: int) -> list[ReadEvent]:
    events = (event for event in commit.events if event.event_id > position)
    return [ReadEvent(str(event.id), event.event_id, parse_mark(json.loads(event.text))) for event in events]
