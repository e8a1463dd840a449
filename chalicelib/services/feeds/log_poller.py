"""Publishes the commits of other processes to a `CommitNotifier`: one poll for each log that has subscribers.

Threads: any thread may call `publish`. One thread calls `poll` at intervals. The pool `annals-poller` reads the logs,
so that a slow log does not delay the others. Each log is read by one thread at a time.
Locks: `_lock` protects `_running` and `_is_outdated`, and is never held while reading or publishing.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.services.feeds.notifiers import CommitNotifier

POLLER_THREADS = 8

_log = logging.getLogger("annals")


class LogPoller:
    """Keeps the subscribers of logs that several processes write up to date."""

    def __init__(
        self,
        notifier: CommitNotifier,
        has_newer_commit: Callable[[Head], bool],
        read_after: Callable[[Head], Iterable[Commit]],
        threads: int = POLLER_THREADS,
    ) -> None:
        self._notifier = notifier
        self._has_newer_commit = has_newer_commit
        """May be eventually consistent: a cheap check that avoids most reads of the log."""
        self._read_after = read_after
        self._lock = threading.Lock()
        self._running: set[int] = set()
        """Logs that are being read."""
        self._is_outdated: set[int] = set()
        """Of these, the logs that have to be read once more."""
        self._threads = ThreadPoolExecutor(threads, "annals-poller")

    def publish(self, commit: Commit) -> None:
        """Publish a commit of this process.

        If another process has written before it, the log is read first, so that subscribers see the commits in order.
        """
        if self._notifier.is_gap_before(commit):
            self._read_soon(commit.server)
        else:
            self._notifier.publish(commit)

    def poll(self) -> None:
        """Start one poll for each log that has subscribers and no poll yet."""
        for end in self._notifier.followed_ends():
            with self._lock:
                is_running = end.server in self._running
                self._running.add(end.server)
            if not is_running:
                self._threads.submit(self._run, end.server, is_growth_known=False)

    def _read_soon(self, server: int) -> None:
        with self._lock:
            if server in self._running:
                self._is_outdated.add(server)
                return
            self._running.add(server)
        self._threads.submit(self._run, server, is_growth_known=True)

    def _run(self, server: int, is_growth_known: bool) -> None:
        while True:
            try:
                self._publish_new_commits(server, is_growth_known)
            except Exception as error:
                # Subscribers wait longer. The next poll tries again.
                _log.warning("cannot poll the log of server %d: %s", server, error)
            with self._lock:
                if server not in self._is_outdated:
                    self._running.discard(server)
                    return
                self._is_outdated.discard(server)
                is_growth_known = True

    def _publish_new_commits(self, server: int, is_growth_known: bool) -> None:
        end = self._notifier.followed_end(server)
        if end is not None and (is_growth_known or self._has_newer_commit(end)):
            for commit in self._read_after(end):
                self._notifier.publish(commit)
