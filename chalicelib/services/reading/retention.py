"""Retention: which events are too old to be read. They are hidden from readers at once and deleted later.

Threads: any thread may call `boundary`. `_window_lock` protects `_windows` and is held while reading the log. `_starts`
and `_expired` have no lock: if a thread replaces a later head by an earlier one, the next call advances it again.
"""

import threading
from collections import deque
from dataclasses import dataclass, field

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, verify_contiguous, verify_contiguous_backwards
from chalicelib.services.ports import Clock, Log
from chalicelib.services.reading.scan import binary_search, find_position


@dataclass(frozen=True, slots=True)
class RetentionBoundary:
    """The end of the expired part of a log. Readers must not see anything up to here."""

    head: Head
    """The last commit whose events have all expired."""
    event_id: int
    """The last EventId that has expired, perhaps within the next commit. 0 if none has."""
    position: int | None = field(default=None, compare=False)
    """The position of `event_id`. None: unknown."""


class Retention:
    """Expires events older than `age_s`, and all but the last `events` of each log. None means no limit."""

    def __init__(self, log: Log, clock: Clock, age_s: float | None = None, events: int | None = None) -> None:
        self._log = log
        self._clock = clock
        self._age_s = age_s
        self._events = events
        self._starts: dict[int, Head] = {}
        self._expired: dict[int, Head] = {}
        """By log, a commit that is known to have expired by age. Calls continue from there."""
        self._windows: dict[int, _Window] = {}
        self._window_lock = threading.Lock()

    def boundary(self, server: int) -> RetentionBoundary:
        """The current boundary of a log."""
        boundaries = [self._deleted(server) if self._age_s is None else self._by_age(server, self._age_s)]
        if self._events is not None:
            boundaries.append(self._by_count(server, self._events))
        return max(boundaries, key=lambda boundary: boundary.event_id)

    def _deleted(self, server: int) -> RetentionBoundary:
        """The boundary of the commits that are no longer stored. Without any limit it never moves and is cached."""
        if server not in self._starts or self._events is not None:
            self._starts[server] = self._log.start(server)
        start = self._starts[server]
        return RetentionBoundary(start, start.last_event_id, start.position)

    def _by_age(self, server: int, age_s: float) -> RetentionBoundary:
        """The boundary of the commits that are too old or no longer stored."""
        event_id = max(self._clock() * 1000 - int(age_s * 1_000_000) - 1, 0)
        expired = self._expired.get(server)
        if expired is None:
            start = self._log.start(server)
            expired = max(start, self._search_by_age(server, event_id), key=lambda head: head.session)
        else:
            expired = self._advance(expired, event_id)
        self._expired[server] = expired
        return RetentionBoundary(expired, expired.last_event_id, expired.position)

    def _search_by_age(self, server: int, event_id: int) -> Head:
        return find_position(self._log, self._log.head(server), event_id)

    def _advance(self, expired: Head, event_id: int) -> Head:
        """The last commit without an event after `event_id`, from `expired` on. One read if nothing else has expired.

        The next stored commit also shows whether those before it are deleted.
        """
        earlier, step = expired, 1
        commit = self._next_commit(earlier.server, earlier.session)
        while commit is not None and commit.last_event_id <= event_id:
            earlier, step = commit.head, step * 2
            commit = self._next_commit(earlier.server, earlier.session + step - 1)
        if commit is not None:
            return binary_search(self._log, earlier, commit.session, event_id)
        head = self._log.head(earlier.server)
        return earlier if head.session == earlier.session else self._search_by_age(earlier.server, event_id)

    def _next_commit(self, server: int, after: int) -> Commit | None:
        return next(iter(self._log.read(server, after, 1)), None)

    def _by_count(self, server: int, events: int) -> RetentionBoundary:
        with self._window_lock:
            window = self._windows.get(server)
            if window is None:
                window = self._windows[server] = _Window(server, events)
                window.fill(self._log)
            window.advance(self._log)
            return window.boundary


class _Window:
    """Heads of the last commits of a log that together contain at least `events` events."""

    def __init__(self, server: int, events: int) -> None:
        self._events = events
        self._total = 0
        self._commits: deque[tuple[Head, Head]] = deque()
        """The head of each commit and of its predecessor."""
        self._head = Head(server)

    def fill(self, log: Log) -> None:
        """Read the last commits backwards from the head of the log."""
        self._commits.clear()
        self._total = 0
        self._head = log.head(self._head.server)
        for commit in verify_contiguous_backwards(log.read_backwards(self._head.server, self._head.session + 1)):
            self._commits.appendleft(_heads(commit))
            self._total += commit.event_count
            if self._total > self._events:
                break

    def advance(self, log: Log) -> None:
        """Add the commits since the last call, and refill if some of them are already deleted."""
        if log.start(self._head.server).session > self._head.session:
            self.fill(log)
        for commit in verify_contiguous(self._head, log.read(self._head.server, self._head.session)):
            self._commits.append(_heads(commit))
            self._total += commit.event_count
            self._head = commit.head
        while self._commits and self._total - self._commits[0][0].instance >= self._events:
            self._total -= self._commits.popleft()[0].instance

    @property
    def boundary(self) -> RetentionBoundary:
        """The boundary before the last `events` events."""
        if not self._commits:
            return RetentionBoundary(self._head, self._head.last_event_id, self._head.position)
        oldest, before = self._commits[0]
        excess = max(self._total - self._events, 0)
        id_before_oldest = oldest.last_event_id - oldest.instance
        position = None if before.position is None else before.position + excess
        return RetentionBoundary(before, id_before_oldest + excess if excess else before.last_event_id, position)


def _heads(commit: Commit) -> tuple[Head, Head]:
    return commit.head, commit.previous_head
