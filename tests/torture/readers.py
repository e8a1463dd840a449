"""Readers that follow the log, each in a process of its own, from its start, its middle and its end in turn."""

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
from tests.torture.evidence import Seen
from tests.torture.journal import SUFFIX, Began, Journal, Saw, Surprised
from tests.torture.signals import Signals
from tests.torture.sources import WAYS, Source
from tests.torture.stores import Store

T = TypeVar("T")

PASS_S = 1.5
"""How long a reader follows before it begins again elsewhere."""


class Ways(Protocol):
    """How readers get at the log."""

    def opened(self, number: int, rng: random.Random) -> AbstractContextManager[Source]:
        """The way of the reader with this number."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What a reader's process is to do."""

    number: int
    home: Path
    ways: Ways
    seed: str
    pause_s: float
    """Between two looks: readers that never rest leave an emulator no time to write."""

    @property
    def name(self) -> str:
        """Who reads."""
        return f"reader-{self.number}"


@dataclass(frozen=True, slots=True)
class StoreWays:
    """Readers of a store, each in another way."""

    store: Store

    @contextmanager
    def opened(self, number: int, rng: random.Random) -> Iterator[Source]:
        """The way of the reader with this number."""
        with self.store.opened() as log:
            yield WAYS[number % len(WAYS)](log, rng)


def read(watch: Watch) -> None:
    """Follow the log in several passes; the last one ends where the log ends."""
    journal = Journal(watch.home / f"{watch.name}{SUFFIX}")
    try:
        rng = random.Random(f"{watch.seed}/{watch.name}")
        with watch.ways.opened(watch.number, rng) as source:
            reader = _Reader(watch, source, rng, journal)
            turns = count(watch.number)
            while not reader.follow(next(turns)):
                pass
    except Exception:
        journal.add(Surprised(text=traceback.format_exc()))


class _Reader:
    def __init__(self, watch: Watch, source: Source, rng: random.Random, journal: Journal) -> None:
        self._pause_s = watch.pause_s
        self._signals = Signals(watch.home)
        self._source = source
        self._rng = rng
        self._journal = journal
        self._known: list[int] = []
        """Some EventIds that exist."""

    def follow(self, turn: int) -> bool:
        """One pass; True if it came to the end of the log."""
        position = self._start(turn)
        self._journal.add(Began(position=position))
        until = time.monotonic() + PASS_S
        while True:
            end = self._signals.end
            if end is not None and position >= end:
                return True
            if end is None and time.monotonic() > until:
                return False
            events, position = self._after(position)
            self._journal.add(Saw(events=tuple(events), position=position))

    def _after(self, position: int) -> tuple[list[Seen], int]:
        events, looked_to = self._patiently(lambda: self._source.after(position))
        if events:
            self._known.append(self._rng.choice(events).event_id)
        time.sleep(self._pause_s)
        return events, looked_to

    def _start(self, turn: int) -> int:
        """Before everything, somewhere inside, or after everything there is."""
        first, last = self._patiently(self._source.extent)
        match turn % 3:
            case 0:
                return 0
            case 1 if self._known and self._rng.random() < 0.5:
                return self._rng.choice(self._known)
            case 1:
                return self._rng.randint(first, last)
            case _:
                return last

    def _patiently(self, ask: Callable[[], T]) -> T:
        """The answer, however often one has to ask."""
        while True:
            try:
                return ask()
            except (Unavailable, OSError, HTTPException):
                time.sleep(self._pause_s)
