"""The poller publishes the commits of other processes, in order and with one read for all subscribers."""

import threading
from collections.abc import Iterator

from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.services.feeds.log_poller import LogPoller
from chalicelib.services.feeds.notifiers import CommitNotifier
from tests.services.feeds.test_notifiers import ALL, commits_of_types, followed_notifier, selecting

TIMEOUT_S = 15.0


class Reads:
    """A log that others write, and the reads of it."""

    def __init__(self, *commits: Commit) -> None:
        self.commits = list(commits)
        self.checks: list[Head] = []
        self.reads: list[Head] = []
        self.failures: list[Exception] = []

    def has_newer_commit(self, head: Head) -> bool:
        self.checks.append(head)
        if self.failures:
            raise self.failures.pop()
        return any(commit.session > head.session for commit in self.commits)

    def read_after(self, head: Head) -> Iterator[Commit]:
        self.reads.append(head)
        return (commit for commit in self.commits if commit.session > head.session)


def poll(poller: LogPoller) -> None:
    """Poll, and wait until all polls are finished."""
    poller.poll()
    finish(poller)


def finish(poller: LogPoller) -> None:
    """Wait until the only thread of the poller is idle."""
    poller._threads.submit(bool).result(TIMEOUT_S)


def test_subscribers_of_one_log_share_one_poll() -> None:
    first, second = commits_of_types("a", "b")
    reads, notifier, notified = Reads(first), CommitNotifier(), list[int]()
    poller = LogPoller(notifier, reads.has_newer_commit, reads.read_after, threads=1)
    for number in range(5):
        notifier.subscribe(first.head, ALL, lambda number=number: notified.append(number))  # type: ignore[misc]
    poll(poller)
    assert (len(reads.checks), reads.reads, notified) == (1, [], [])
    reads.commits.append(second)
    poll(poller)
    assert (len(reads.checks), reads.reads, notified) == (2, [first.head], [0, 1, 2, 3, 4])


def test_log_without_subscribers_is_not_polled() -> None:
    (first,) = commits_of_types("a")
    reads, notifier = Reads(first), CommitNotifier()
    poller = LogPoller(notifier, reads.has_newer_commit, reads.read_after, threads=1)
    notifier.unsubscribe(notifier.subscribe(Head(1), ALL, lambda: None))
    poll(poller)
    assert reads.checks == []


def test_commit_of_another_selection_wakes_nobody() -> None:
    first, second, third = commits_of_types("a", "b", "c")
    reads, notifier, notified = Reads(first, second), CommitNotifier(), list[str]()
    poller = LogPoller(notifier, reads.has_newer_commit, reads.read_after, threads=1)
    subscription = notifier.subscribe(first.head, selecting("c"), lambda: notified.append("c"))
    poll(poller)
    assert notified == []
    reads.commits.append(third)
    poll(poller)
    assert (notified, reads.reads) == (["c"], [first.head, second.head])
    assert notifier.unsubscribe(subscription) == third.previous_head
    assert notifier.commits_after(second.head) == [third]


def test_own_commit_after_a_gap_is_published_in_order() -> None:
    """Another process has written before it. No subscriber has to read the log for the commit in between."""
    first, second, third = commits_of_types("a", "b", "c")
    reads, notifier, notified = Reads(first, second, third), CommitNotifier(), list[str]()
    poller = LogPoller(notifier, reads.has_newer_commit, reads.read_after, threads=1)
    subscription = notifier.subscribe(first.head, selecting("b"), lambda: notified.append("b"))
    notifier.subscribe(first.head, selecting("d"), lambda: notified.append("d"))
    poller.publish(third)
    finish(poller)
    assert (reads.checks, reads.reads, notified) == ([], [first.head], ["b"])
    assert notifier.unsubscribe(subscription) == second.previous_head
    assert notifier.commits_after(first.head) == [second, third]


def test_gap_during_a_poll_is_read_after_it() -> None:
    first, second, third = commits_of_types("a", "b", "c")
    is_reading, may_continue = threading.Event(), threading.Event()

    class SlowReads(Reads):
        def has_newer_commit(self, head: Head) -> bool:
            found = super().has_newer_commit(head)
            is_reading.set()
            assert may_continue.wait(TIMEOUT_S)
            return found

    reads, notifier = SlowReads(first), CommitNotifier()
    poller = LogPoller(notifier, reads.has_newer_commit, reads.read_after, threads=1)
    notifier.subscribe(first.head, selecting("never"), lambda: None)
    poller.poll()
    assert is_reading.wait(TIMEOUT_S)
    reads.commits += [second, third]
    poller.poll()
    poller.publish(third)
    may_continue.set()
    finish(poller)
    assert (len(reads.checks), reads.reads) == (1, [first.head])
    assert notifier.commits_after(first.head) == [second, third]


def test_commit_published_twice_is_ignored() -> None:
    first, second = commits_of_types("a", "b")
    notifier, notified = followed_notifier(), list[str]()
    for commit in (first, second, first):
        notifier.publish(commit)
    notifier.subscribe(second.head, ALL, lambda: notified.append("again"))
    notifier.publish(second)
    assert notified == []
    assert notifier.commits_after(first.head) == [second]


def test_failed_poll_is_repeated() -> None:
    first, second = commits_of_types("a", "b")
    reads, notifier, notified = Reads(first, second), CommitNotifier(), list[str]()
    reads.failures.append(Unavailable("no answer"))
    poller = LogPoller(notifier, reads.has_newer_commit, reads.read_after, threads=1)
    notifier.subscribe(first.head, ALL, lambda: notified.append("second"))
    poll(poller)
    assert notified == []
    poll(poller)
    assert notified == ["second"]
