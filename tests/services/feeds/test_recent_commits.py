"""Which commits a notifier remembers for its subscribers, and how much memory it uses for them."""

import tracemalloc

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import next_commit
from chalicelib.services.feeds.feed import FeedQuery, long_poll
from chalicelib.services.feeds.notifiers import FOLLOWED_S, CommitNotifier
from chalicelib.services.feeds.recent_commits import COMMIT_BYTES, MAX_TOTAL_RECENT_BYTES
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.no_views import NoViews
from chalicelib.services.reading.retention import Retention
from tests.services.fakes import World, append, large_text
from tests.services.feeds.test_notifiers import ALL, TEST_TIMEOUT_S, body_of_size, commits_of_types, selecting

KB = 1024
MB = 1024 * KB


def follow(notifier: CommitNotifier, server: int) -> None:
    notifier.subscribe(Head(server), selecting("never"), lambda: None)


def test_commits_of_many_logs_without_subscribers_use_no_memory() -> None:
    notifier = CommitNotifier()
    tracemalloc.start()
    try:
        for server in range(1, 51):
            head = Head(server)
            for number in range(20):
                commit = next_commit(head, Append(server, (large_text(10 * KB),), f"r{number}"), 0)
                notifier.publish(commit)
                head = commit.head
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < MB


def test_commit_is_remembered_only_while_the_log_is_followed(world: World) -> None:
    notifier, commits = CommitNotifier(world.monotonic), commits_of_types("a", "b", "c", "d")
    notifier.publish(commits[0])
    assert notifier.commits_after(Head(1)) is None
    subscription = notifier.subscribe(commits[0].head, selecting("never"), lambda: None)
    world.elapsed_s += 10 * FOLLOWED_S
    notifier.publish(commits[1])
    assert notifier.unsubscribe(subscription) == commits[1].head
    world.elapsed_s += FOLLOWED_S - 1
    notifier.publish(commits[2])
    assert notifier.commits_after(commits[0].head) == commits[1:3]
    world.elapsed_s += 1
    notifier.publish(commits[3])
    assert notifier.commits_after(commits[2].head) is None
    assert notifier.commits_after(commits[3].head) == []


def test_late_subscriber_is_notified_of_forgotten_commits() -> None:
    notifier, (first, second) = CommitNotifier(), commits_of_types("a", "b")
    notifier.publish(first)
    notifier.publish(second)
    notified: list[int] = []
    for head in (Head(1), first.head, second.head):
        notifier.subscribe(head, ALL, lambda head=head: notified.append(head.session))  # type: ignore[misc]
    assert notified == [0, 1]


def test_log_written_least_recently_is_forgotten_first() -> None:
    """Commits of half a mebibyte, two of each log except the second: one commit more than the limit allows."""
    notifier, body = CommitNotifier(), body_of_size(MB // 2 - COMMIT_BYTES)
    logs = [
        [commit._replace(body=body) for commit in commits_of_types("large", "large", server=server)]
        for server in range(1, MAX_TOTAL_RECENT_BYTES // MB + 2)
    ]
    for commits in logs:
        follow(notifier, commits[0].server)
        notifier.publish(commits[0])
    for commits in (logs[0], *logs[2:]):
        notifier.publish(commits[1])
    known = [notifier.commits_after(Head(commits[0].server)) is not None for commits in logs]
    assert known == [True, False, *[True] * (len(logs) - 2)]
    assert notifier.commits_after(logs[1][0].head) == []
    assert notifier.followed_end(logs[1][0].server) == logs[1][0].head


def test_forgotten_commits_of_a_log_make_room_for_others() -> None:
    """A refresh and a gap forget commits as well."""
    notifier, body = CommitNotifier(), body_of_size(MB - COMMIT_BYTES)
    number = MAX_TOTAL_RECENT_BYTES // MB
    logs = {
        server: [commit._replace(body=body) for commit in commits_of_types(*["large"] * 3, server=server)]
        for server in range(1, number + 3)
    }
    for server in range(1, number + 1):
        follow(notifier, server)
        notifier.publish(logs[server][0])
    notifier.refresh(lambda server: logs[server][2 if server == number else 0].head)
    notifier.publish(logs[number - 1][2])
    follow(notifier, number + 1)
    notifier.publish(logs[number + 1][0])
    assert notifier.commits_after(Head(1)) == [logs[1][0]]
    follow(notifier, number + 2)
    notifier.publish(logs[number + 2][0])
    assert notifier.commits_after(Head(1)) is None


def test_lazy_properties_of_remembered_commits_are_freed() -> None:
    notifier, (first,) = CommitNotifier(), commits_of_types("a")
    follow(notifier, 1)
    notifier.publish(first)
    for _ in range(2):
        (commit,) = notifier.commits_after(Head(1)) or []
        assert (commit, vars(commit)) == (first, {})
        assert commit.events == first.events


def test_reader_gets_forgotten_commits_from_the_log(log: SqliteLog, world: World) -> None:
    """It subscribes after a commit that was published and not remembered, and so reads the log again."""
    notifier = CommitNotifier()
    reader = LogReader(log, NoViews(), recent_commits=notifier.commits_after)
    read = long_poll(FeedQuery(1, ALL, timeout_s=TEST_TIMEOUT_S), reader, Retention(log, world.clock), world.monotonic)
    wait = next(read)
    commit = world.appender(log).append(append("/a")).commit
    notifier.publish(commit)
    assert notifier.commits_after(wait.head) is None
    with pytest.raises(StopIteration) as end:
        read.send(notifier.wait(wait.head, wait.selection, wait.timeout_s, 0))
    assert end.value.value.texts == commit.wire_texts
