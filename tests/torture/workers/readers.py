"""Reader processes that follow the log from its start, middle and end in turn."""

import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from itertools import count
from pathlib import Path
from typing import Protocol, TypeVar

from chalicelib.domain.errors import Unavailable
from tests.torture.checks.evidence import ReadEvent
from tests.torture.checks.journal import SUFFIX, EventsRead, Journal, ReadStarted, UnexpectedResult
from tests.torture.signals import Signals
from tests.torture.stores import Store
from tests.torture.workers.sources import SOURCES, Source

T = TypeVar("T")

PASS_DURATION_S = 1.5
"""How long a reader follows before it starts again at another position."""


class SourceFactory(Protocol):
    """Opens sources for readers."""

    def open(self, number: int, rng: random.Random) -> AbstractContextManager[Source]:
        """Open the source for the reader with this number."""


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Settings of a reader process."""

    number: int
    home: Path
    sources: SourceFactory
    seed: str
    pause_s: float
    """Pause between reads: without it, readers would leave an emulator no time for writes."""

    @property
    def name(self) -> str:
        return f"reader-{self.number}"


@dataclass(frozen=True, slots=True)
class StoreSources:
    """Sources that read a store, each in a different way."""

    store: Store

    @contextmanager
    def open(self, number: int, rng: random.Random) -> Iterator[Source]:
        with self.store.open() as log:
            yield SOURCES[number % len(SOURCES)](log, rng)


def read(settings: ReaderSettings) -> None:
    """Follow the log in several passes. The last one ends at the end of the log."""
    journal = Journal(settings.home / f"{settings.name}{SUFFIX}")
    try:
        rng = random.Random(f"{settings.seed}/{settings.name}")
        with settings.sources.open(settings.number, rng) as source:
            reader = _Reader(settings, source, rng, journal)
            turns = count(settings.number)
            while not reader.follow(next(turns)):
                pass
    except Exception:
        journal.add(UnexpectedResult(text=traceback.format_exc()))


class _Reader:
    def __init__(self, settings: ReaderSettings, source: Source, rng: random.Random, journal: Journal) -> None:
        self._pause_s = settings.pause_s
        self._signals = Signals(settings.home)
        self._source = source
        self._rng = rng
        self._journal = journal
        self._seen_event_ids: list[int] = []
        """A sample of existing EventIds."""

    def follow(self, turn: int) -> bool:
        """Run one pass. True if it reached the final end of the log."""
        position = self._start(turn)
        self._journal.add(ReadStarted(position=position))
        until = time.monotonic() + PASS_DURATION_S
        while True:
            end = self._signals.end
            if end is not None and position >= end:
                return True
            if end is None and time.monotonic() > until:
                return False
            events, position = self._read_after(position)
            self._journal.add(EventsRead(events=tuple(events), position=position))

    def _read_after(self, position: int) -> tuple[list[ReadEvent], int]:
        events, position_after = self._retry(lambda: self._source.read_after(position))
        if events:
            self._seen_event_ids.append(self._rng.choice(events).event_id)
        time.sleep(self._pause_s)
        return events, position_after

    def _start(self, turn: int) -> int:
        """A position before, inside or at the end of the log."""
        first, last = self._retry(self._source.extent)
        match turn % 3:
            case 0:
                return 0
            case 1 if self._seen_event_ids and self._rng.random() < 0.5:
                return self._rng.choice(self._seen_event_ids)
            case 1:
                return self._rng.randint(first, last)
            case _:
                return last

    def _retry(self, read: Callable[[], T]) -> T:
        """Call until it succeeds."""
        while True:
            try:
                return read()
            except (Unavailable, OSError, HTTPException):
                time.sleep(self._pause_s)
