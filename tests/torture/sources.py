"""The ways to read a log: each tells what comes after a position, and how far it looked."""

import json
import random
from collections.abc import Iterable, Mapping
from itertools import islice, takewhile
from typing import Any, Protocol

from chalicelib.domain.log.commit import Commit, chained
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.ports import Log
from chalicelib.services.reading.scan import scan, session_at
from tests.torture.checker import mark_of
from tests.torture.evidence import Seen
from tests.torture.workload import SERVER

EVERYTHING = Selection()
LIMITS = (None, 1, 2, 7, 100)


class Source(Protocol):
    """A log to be read."""

    def after(self, position: int) -> tuple[list[Seen], int]:
        """What comes after `position`, and the EventId up to which that is all."""

    def extent(self) -> tuple[int, int]:
        """The first and the last EventId; zeros while there is none."""


class _OfLog:
    def __init__(self, log: Log, rng: random.Random) -> None:
        self._log = log
        self._rng = rng

    def extent(self) -> tuple[int, int]:
        first = self._log.commit(SERVER, 1)
        return (first.at, self._log.head(SERVER).last) if first else (0, 0)


class Scanning(_OfLog):
    """Pages of different sizes, as the queries get them."""

    def after(self, position: int) -> tuple[list[Seen], int]:
        """One page."""
        start = session_at(self._log, self._log.head(SERVER), position)
        page = scan(self._log, start, position, EVERYTHING, self._rng.choice(LIMITS))
        return seen_in(page.wires), max(page.event_id, position)


class Reading(_OfLog):
    """Commit after commit, as the views get them."""

    def after(self, position: int) -> tuple[list[Seen], int]:
        """Some commits."""
        start = session_at(self._log, self._log.head(SERVER), position)
        most = self._rng.choice(LIMITS)
        found: list[Seen] = []
        for commit in islice(chained(start, self._log.read(SERVER, start.session, most)), most):
            found += _seen(commit, position)
            position = max(position, commit.last)
        return found, position


class Backing(_OfLog):
    """From the head back to the position, as whoever wants the newest gets them."""

    def after(self, position: int) -> tuple[list[Seen], int]:
        """All there is."""
        head = self._log.head(SERVER)
        newer = takewhile(lambda commit: commit.last > position, self._log.read_back(SERVER, head.session + 1))
        found = [event for commit in reversed(list(newer)) for event in _seen(commit, position)]
        return found, max(position, head.last)


WAYS = (Scanning, Reading, Backing)


def seen_in(wires: Iterable[str]) -> list[Seen]:
    """Events as readers get them over the wire."""
    events = map(json.loads, wires)
    return [Seen(id_of(event), event["eventId"], mark_of(event)) for event in events]


def id_of(event: Mapping[str, Any]) -> str:
    """The id of an event, given its JSON."""
    number = event["id"]
    return f"{number['server']}.{number['session']}.{number['instance']}"


def _seen(commit: Commit, after: int) -> list[Seen]:
    events = (event for event in commit.events if event.event_id > after)
    return [Seen(str(event.id), event.event_id, mark_of(json.loads(event.text))) for event in events]
