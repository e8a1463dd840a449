"""Change notifiers: how waiting readers learn about new commits.

`CommitNotifier` is for the process that writes the log: its writer publishes every commit. `PollingNotifier` is for
processes that share only a database with the writers.

Threads: any thread may call any method. `CommitNotifier` calls `Subscription.notify` on the publishing thread while it
holds `_mutex`, so `notify` must neither block nor call the notifier.
Locks: `_mutex` protects all state of `CommitNotifier` and is never held while reading the log.
"""

import threading
import time
from collections.abc import Callable
from itertools import count
from math import inf

from chalicelib.domain.backoff import Backoff
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.feeds.recent_commits import RecentCommits
from chalicelib.services.feeds.subscriber_groups import MAX_MATCH_COST, SubscriberGroups, Subscription, may_select

INITIAL_POLL_INTERVAL_S = 0.025
MAX_POLL_INTERVAL_S = 0.5
POLL_BACKOFF = Backoff(INITIAL_POLL_INTERVAL_S, max_s=0.2)
"""Poll intervals double up to `max_s`. Beyond that they grow with the time waited, see `POLL_INTERVAL_GROWTH`."""
POLL_INTERVAL_GROWTH = 0.05
"""Share of the time waited so far that is added to the poll interval."""
FOLLOWED_S = 60.0
"""Commits are remembered until their log has had no subscriber for this time: readers pause between subscriptions."""


class CommitNotifier:
    """Wakes the subscribers of a commit as soon as the writer publishes it.

    If matching a commit takes too long, subscribers are woken without a match, and read the log.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._mutex = threading.Lock()
        self._groups: dict[int, SubscriberGroups] = {}
        self._recent = RecentCommits()
        """It has the end of each log with subscribers."""
        self._followed_at: dict[int, float] = {}
        """When a log last had a subscriber, if that was not long ago."""
        self._last_sessions: dict[int, int] = {}
        """Last session of each log that ever had a subscriber, as of the last `refresh`."""
        self._open = True

    def publish(self, commit: Commit) -> None:
        """Wake the subscribers that select an event of `commit`, which is already stored.

        A commit that was published before is ignored.
        """
        server = commit.server
        with self._mutex:
            end = self._recent.end(server)
            if end is not None and commit.session <= end.session:
                return
            is_next = end is None or commit.session == end.session + 1
            if not self._is_followed(server):
                self._recent.restart(commit.head)
                return
            if end is None or not is_next:
                # After a gap, another process writes too. Readers must look at the log for the commits in between.
                self._recent.restart(commit.previous_head)
            self._recent.add(commit)
            if groups := self._groups.get(server):
                for selection in groups.matching(commit) if is_next else groups.selections:
                    self._notify_group(groups, selection, commit, is_next)

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
            self._followed_at[head.server] = self._monotonic()
            if may_have_match or not self._open:
                notify()
            else:
                self._remember_end(checked_head)
                self._groups.setdefault(head.server, SubscriberGroups()).add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> Head | None:
        """End a subscription, notified or not. Returns the position up to which no selected event exists.

        Returns None if the notifier is closed.
        """
        with self._mutex:
            server = subscription.head.server
            groups = self._groups.get(server)
            if groups is not None and groups.remove(subscription):
                end = self._recent.end(server)
                if end is not None and end.session > subscription.head.session:
                    subscription.head = end
            return subscription.head if self._open else None

    def followed_ends(self) -> list[Head]:
        """The last published position of each log with subscribers."""
        with self._mutex:
            followed = [server for server, groups in self._groups.items() if groups]
            return [end for server in followed if (end := self._recent.end(server)) is not None]

    def followed_end(self, server: int) -> Head | None:
        """The last published position of a log. None if it has no subscribers."""
        with self._mutex:
            return self._recent.end(server) if self._groups.get(server) else None

    def is_gap_before(self, commit: Commit) -> bool:
        """Whether the log has subscribers, and commits before `commit` were not published to them."""
        with self._mutex:
            end = self._recent.end(commit.server)
            has_subscribers = bool(self._groups.get(commit.server))
            return has_subscribers and end is not None and commit.session > end.session + 1

    def commits_after(self, head: Head) -> list[Commit] | None:
        """The published commits after `head`. None if they are not remembered back to there."""
        with self._mutex:
            return self._recent.after(head)

    def is_known_after(self, head: Head) -> bool:
        """Whether `commits_after` returns the commits after `head`."""
        with self._mutex:
            return self._recent.is_known_after(head)

    def refresh(self, read_head: Callable[[int], Head]) -> None:
        """Wake the subscribers of logs that another process has extended. `read_head` reads a log's current head."""
        with self._mutex:
            servers = list(self._last_sessions)
        for server in servers:
            last_session = read_head(server).session
            with self._mutex:
                self._last_sessions[server] = last_session
                end = self._recent.end(server)
                if end is None or end.session >= last_session:
                    continue
                self._recent.forget(server)
                for subscription in self._groups.pop(server, SubscriberGroups()):
                    subscription.notify()

    def close(self) -> None:
        """Notify all subscribers. From now on `wait` and `unsubscribe` return None."""
        with self._mutex:
            self._open = False
            for groups in self._groups.values():
                for subscription in groups:
                    subscription.notify()
            self._groups.clear()

    def _remember_end(self, head: Head) -> None:
        """Publish nothing up to `head`, which the first subscriber of a log has read."""
        end = self._recent.end(head.server)
        is_outdated = end is not None and end.session < head.session and not self._groups.get(head.server)
        if end is None or is_outdated:
            self._recent.restart(head)

    def _is_followed(self, server: int) -> bool:
        """Whether the log has a subscriber, or had one not long ago."""
        now = self._monotonic()
        if self._groups.get(server):
            self._followed_at[server] = now
        elif now - self._followed_at.get(server, -inf) >= FOLLOWED_S:
            self._followed_at.pop(server, None)
            return False
        return True

    def _notify_group(self, groups: SubscriberGroups, selection: Selection, commit: Commit, is_next: bool) -> None:
        """Notify the subscribers of a selection, except those that have read `commit` already."""
        before = commit.previous_head
        for subscription in groups.pop(selection):
            if subscription.head.session >= commit.session:
                groups.add(subscription)
            else:
                subscription.head = before if is_next else subscription.head
                subscription.notify()

    def _check_recent(self, head: Head, selection: Selection) -> tuple[Head, bool]:
        """Match the recent commits after `head`.

        Returns the position up to which no selected event exists, and whether one may exist after it.
        """
        end, refreshed_to = self._recent.end(head.server), self._last_sessions.get(head.server, 0)
        published_to = 0 if end is None else end.session
        if max(published_to, refreshed_to) <= head.session:
            return head, False
        if refreshed_to > published_to:
            return head, True
        commits = self._recent.after(head)
        if commits is None:
            return head, True
        if selection.match_cost * sum(commit.event_count for commit in commits) > MAX_MATCH_COST:
            return head, True
        for commit in commits:
            if may_select(selection, commit):
                return head, True
            head = commit.head
        return head, False


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
