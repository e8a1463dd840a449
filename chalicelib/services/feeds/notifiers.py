"""Change notifiers: how waiting readers learn about new commits.

`CommitNotifier` is for the process that writes the log: its writer publishes every commit. `PollingNotifier` is for
processes that share only a database with the writers.

Threads: any thread may call any method. `CommitNotifier` calls `Subscription.notify` on the publishing thread while it
holds `_mutex`, so `notify` must neither block nor call the notifier.
Locks: `_mutex` protects all state of `CommitNotifier` and is never held while reading the log.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import chain, count, islice

from chalicelib.domain.backoff import Backoff
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import Selection

INITIAL_POLL_INTERVAL_S = 0.025
MAX_POLL_INTERVAL_S = 0.5
POLL_BACKOFF = Backoff(INITIAL_POLL_INTERVAL_S, max_s=0.2)
"""Poll intervals double up to `max_s`. Beyond that they grow with the time waited, see `POLL_INTERVAL_GROWTH`."""
POLL_INTERVAL_GROWTH = 0.05
"""Share of the time waited so far that is added to the poll interval."""
MAX_RECENT_COMMITS = 256
"""Commits kept per log, so that a reader that subscribes late need not read the log again."""
MAX_RECENT_BYTES = 1024 * 1024
"""Maximum total body size of the commits kept per log."""


class Subscription:
    """A reader waiting for a selected event. `notify` is called at most once."""

    __slots__ = ("head", "notify", "selection")

    def __init__(self, head: Head, selection: Selection, notify: Callable[[], None]) -> None:
        self.head = head
        """No selected event exists up to here."""
        self.selection = selection
        self.notify = notify


class CommitNotifier:
    """Wakes the subscribers of a commit as soon as the writer publishes it.

    Subscribers with equal selections form a group, and each commit is matched once per group.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._groups: dict[int, dict[Selection, dict[Subscription, None]]] = {}
        self._recent: dict[int, _RecentCommits] = {}
        self._last_sessions: dict[int, int] = {}
        """Last session of each log that ever had a subscriber, as of the last `refresh`."""
        self._open = True

    def publish(self, commit: Commit) -> None:
        """Wake the subscribers that select an event of `commit`, which is already stored."""
        server = commit.server
        with self._mutex:
            is_next, recent = self._is_next(commit), self._recent.get(server)
            if recent is None or not is_next:
                # After a gap, another process writes too. Readers must look at the log for the commits in between.
                recent = self._recent[server] = _RecentCommits()
            recent.add(commit)
            if groups := self._groups.get(server):
                before = commit.previous_head
                selections = [selection for selection in groups if not is_next or _selects(selection, commit)]
                for subscription in chain.from_iterable(groups.pop(selection) for selection in selections):
                    subscription.head = before if is_next else subscription.head
                    subscription.notify()

    def wait(self, head: Head, selection: Selection, timeout_s: float, attempt: int) -> Head | None:
        """Block until a selected event may exist after `head`, or until `timeout_s`. Implements `ChangeNotifier`."""
        del attempt
        lock = threading.Lock()
        lock.acquire()
        subscription = self.subscribe(head, selection, lock.release)
        lock.acquire(timeout=min(max(timeout_s, 0.0), threading.TIMEOUT_MAX))
        return self.unsubscribe(subscription)

    def subscribe(self, head: Head, selection: Selection, notify: Callable[[], None]) -> Subscription:
        """Have `notify` called once when a selected event may exist after `head`, perhaps before this returns."""
        with self._mutex:
            checked_head, may_have_match = self._check_recent(head, selection)
            subscription = Subscription(checked_head, selection, notify)
            self._last_sessions.setdefault(head.server, 0)
            if may_have_match or not self._open:
                notify()
            else:
                self._groups.setdefault(head.server, {}).setdefault(selection, {})[subscription] = None
        return subscription

    def unsubscribe(self, subscription: Subscription) -> Head | None:
        """End a subscription, notified or not. Returns the position up to which no selected event exists.

        Returns None if the notifier is closed.
        """
        with self._mutex:
            server = subscription.head.server
            group = self._groups.get(server, {}).get(subscription.selection, {})
            if subscription in group:
                del group[subscription]
                if not group:
                    del self._groups[server][subscription.selection]
                recent = self._recent.get(server)
                if recent is not None and recent.commits[-1].session > subscription.head.session:
                    subscription.head = recent.commits[-1].head
            return subscription.head if self._open else None

    def refresh(self, read_head: Callable[[int], Head]) -> None:
        """Wake the subscribers of logs that another process has extended. `read_head` reads a log's current head."""
        with self._mutex:
            servers = list(self._last_sessions)
        for server in servers:
            last_session = read_head(server).session
            with self._mutex:
                self._last_sessions[server] = last_session
                recent = self._recent.get(server)
                if recent is not None:
                    published_to = recent.commits[-1].session
                else:
                    subscriptions = chain.from_iterable(self._groups.get(server, {}).values())
                    published_to = min((each.head.session for each in subscriptions), default=last_session)
                if published_to >= last_session:
                    continue
                self._recent.pop(server, None)
                for subscription in chain.from_iterable(self._groups.pop(server, {}).values()):
                    subscription.notify()

    def close(self) -> None:
        """Notify all subscribers. From now on `wait` and `unsubscribe` return None."""
        with self._mutex:
            self._open = False
            for groups in self._groups.values():
                for subscription in chain.from_iterable(groups.values()):
                    subscription.notify()
            self._groups.clear()

    def _is_next(self, commit: Commit) -> bool:
        """Whether `commit` directly follows the last published commit, or the heads of all subscribers."""
        recent = self._recent.get(commit.server)
        if recent is not None:
            return recent.commits[-1].session == commit.session - 1
        subscriptions = chain.from_iterable(self._groups.get(commit.server, {}).values())
        return all(subscription.head.session >= commit.session - 1 for subscription in subscriptions)

    def _check_recent(self, head: Head, selection: Selection) -> tuple[Head, bool]:
        """Match the recent commits after `head`.

        Returns the position up to which no selected event exists, and whether one may exist after it.
        """
        recent, refreshed_to = self._recent.get(head.server), self._last_sessions.get(head.server, 0)
        published_to = 0 if recent is None else recent.commits[-1].session
        if max(published_to, refreshed_to) <= head.session:
            return head, False
        if recent is None or refreshed_to > published_to:
            return head, True
        skipped = head.session - recent.commits[0].session + 1
        if skipped < 0:
            return head, True
        for commit in islice(recent.commits, skipped, None):
            if _selects(selection, commit):
                return head, True
            head = commit.head
        return head, False


class _RecentCommits:
    """The latest commits of a log without gaps, at least one."""

    __slots__ = ("commits", "size_bytes")

    def __init__(self) -> None:
        self.commits: deque[Commit] = deque()
        self.size_bytes = 0

    def add(self, commit: Commit) -> None:
        """Add the next commit and evict the oldest ones beyond the limits."""
        self.commits.append(commit)
        self.size_bytes += len(commit.body)
        while len(self.commits) > MAX_RECENT_COMMITS or (self.size_bytes > MAX_RECENT_BYTES and len(self.commits) > 1):
            self.size_bytes -= len(self.commits.popleft().body)


class PollingNotifier:
    """Polls for new commits with increasing intervals.

    `has_newer_commit` says whether the log has grown after a head. It may be eventually consistent: a cheap check that
    avoids most reads of the log.
    """

    def __init__(
        self,
        pause: Callable[[float], None] = time.sleep,
        has_newer_commit: Callable[[Head], bool] = lambda _: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pause = pause
        self._has_newer_commit = has_newer_commit
        self._monotonic = monotonic
        self._open = True

    def wait(self, head: Head, selection: Selection, timeout_s: float, attempt: int) -> Head | None:
        """Block until any commit exists after `head`, or until `timeout_s`. Implements `ChangeNotifier`."""
        del selection
        deadline = self._monotonic() + timeout_s
        remaining_s = timeout_s
        for poll in count(attempt):
            self._pause(min(remaining_s, _poll_interval_s(poll, timeout_s - remaining_s)))
            remaining_s = deadline - self._monotonic()
            if not self._open or remaining_s <= 0 or self._has_newer_commit(head):
                break
        return head if self._open else None

    def close(self) -> None:
        """End all waits at their next poll."""
        self._open = False


def _poll_interval_s(poll: int, waited_s: float) -> float:
    return min(MAX_POLL_INTERVAL_S, POLL_BACKOFF.delay_s(poll) + POLL_INTERVAL_GROWTH * waited_s)


def _selects(selection: Selection, commit: Commit) -> bool:
    return selection.selects_everything or any(selection.selects(event) for event in commit.events)
