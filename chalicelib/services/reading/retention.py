"""Retention: how long events are kept. What is past it is forgotten for readers at once, physically later."""

import threading
from collections import deque
from dataclasses import dataclass

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, chained, chained_back
from chalicelib.services.ports import Clock, Log
from chalicelib.services.reading.scan import session_at


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What readers must not see any more."""

    before: Head
    """The last commit that is forgotten whole."""
    last: int
    """The last EventId that is forgotten, perhaps amid the next commit; 0 if none is."""


class Retention:
    """Events older than `age_s`, and all but the last `events` of a log, are forgotten; None keeps them for ever."""

    def __init__(self, log: Log, clock: Clock, age_s: float | None = None, events: int | None = None) -> None:
        self._log = log
        self._clock = clock
        self._age_s = age_s
        self._events = events
        self._starts: dict[int, Head] = {}
        self._windows: dict[int, _Window] = {}
        self._turn = threading.Lock()

    def forgotten(self, server: int) -> Forgotten:
        """What is past retention now."""
        found = [self._gone(server)]
        if self._age_s is not None:
            found.append(self._by_age(server, self._age_s))
        if self._events is not None:
            found.append(self._by_count(server, self._events))
        return max(found, key=lambda forgotten: forgotten.last)

    def _gone(self, server: int) -> Forgotten:
        """What is not stored any more; looked up once where nothing is ever forgotten."""
        if server not in self._starts or self._age_s is not None or self._events is not None:
            self._starts[server] = self._log.start(server)
        start = self._starts[server]
        return Forgotten(start, start.last)

    def _by_age(self, server: int, age_s: float) -> Forgotten:
        oldest_us = self._clock() * 1000 - int(age_s * 1_000_000)
        before = session_at(self._log, self._log.head(server), max(oldest_us - 1, 0))
        return Forgotten(before, before.last)

    def _by_count(self, server: int, events: int) -> Forgotten:
        with self._turn:
            window = self._windows.get(server)
            if window is None:
                window = self._windows[server] = _Window(server, events)
                window.fill(self._log)
            window.follow(self._log)
            return window.forgotten


class _Window:
    """The last commits of a log, as many as hold so many events; only what is needed of them."""

    def __init__(self, server: int, events: int) -> None:
        self._events = events
        self._total = 0
        self._kept: deque[tuple[Head, Head]] = deque()
        """Each commit's head, and the one before."""
        self._head = Head(server)

    def fill(self, log: Log) -> None:
        """Count back from the head."""
        self._kept.clear()
        self._total = 0
        self._head = log.head(self._head.server)
        for commit in chained_back(log.read_back(self._head.server, self._head.session + 1)):
            self._kept.appendleft(_both(commit))
            self._total += commit.n
            if self._total > self._events:
                break

    def follow(self, log: Log) -> None:
        """Take in what came since; some of it may have been deleted already."""
        if log.start(self._head.server).session > self._head.session:
            self.fill(log)
        for commit in chained(self._head, log.read(self._head.server, self._head.session)):
            self._kept.append(_both(commit))
            self._total += commit.n
            self._head = commit.head
        while self._kept and self._total - self._kept[0][0].instance >= self._events:
            self._total -= self._kept.popleft()[0].instance

    @property
    def forgotten(self) -> Forgotten:
        """All that lies before the last events."""
        if not self._kept:
            return Forgotten(self._head, self._head.last)
        oldest, before = self._kept[0]
        too_many = self._total - self._events
        return Forgotten(before, oldest.last - oldest.instance + too_many if too_many > 0 else before.last)


def _both(commit: Commit) -> tuple[Head, Head]:
    return commit.head, Head(commit.server, commit.session - 1, 0, commit.prev)
