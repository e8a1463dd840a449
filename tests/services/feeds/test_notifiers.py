"""The notifiers: publishing commits to subscribers, and polling."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.domain.events.event import Event, NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_query import MAX_TERMS, QueryItem, check_terms, select_any
from chalicelib.services.feeds.notifiers import (
    INITIAL_POLL_INTERVAL_S,
    MAX_POLL_INTERVAL_S,
    CommitNotifier,
    PollingNotifier,
)
from chalicelib.services.feeds.recent_commits import MAX_RECENT_COMMITS
from tests.services.fakes import World, large_text

TEST_TIMEOUT_S = 30.0
ALL = Selection()
START = Head(1)


def selecting(name: str) -> Selection:
    return Selection(types=((name,),))


def commits_of_types(*names: str, server: int = 1) -> list[Commit]:
    """One commit per type, each with one event."""
    head, commits = Head(server), []
    for name in names:
        commits.append(next_commit(head, Append(server, encode_within_limits([NewEvent(type=(name,))]), "r"), 0))
        head = commits[-1].head
    return commits


def followed_notifier() -> CommitNotifier:
    """A notifier that remembers the commits of log 1, because it had a subscriber a short time ago."""
    notifier = CommitNotifier()
    notifier.unsubscribe(notifier.subscribe(Head(1), ALL, lambda: None))
    return notifier


def body_of_size(size_bytes: int) -> str:
    """The body of a commit with one event."""
    body = f"[{large_text(size_bytes - len(f'[{large_text(0)}]'))}]"
    assert len(body) == size_bytes
    return body


def start_waiting(
    pool: ThreadPoolExecutor, notifier: CommitNotifier, head: Head, selection: Selection
) -> "Future[Head | None]":
    """Wait in another thread, which has started when this returns."""
    started = threading.Event()

    def wait() -> Head | None:
        started.set()
        return notifier.wait(head, selection, TEST_TIMEOUT_S, 0)

    future = pool.submit(wait)
    started.wait(TEST_TIMEOUT_S)
    return future


def test_wait_after_publish_returns_at_once() -> None:
    notifier, (first, second) = CommitNotifier(), commits_of_types("a", "b")
    notifier.publish(first)
    notifier.publish(second)
    assert notifier.wait(first.head, ALL, TEST_TIMEOUT_S, 0) == first.head


def test_wait_returns_head_before_selected_event() -> None:
    notifier, (first, second, third) = followed_notifier(), commits_of_types("a", "a", "b")
    for commit in (first, second, third):
        notifier.publish(commit)
    assert notifier.wait(Head(1), selecting("b"), TEST_TIMEOUT_S, 0) == second.head
    assert notifier.wait(Head(1), selecting("c"), 0.0, 0) == third.head


def test_publish_wakes_only_matching_subscribers() -> None:
    notifier, (first, second) = CommitNotifier(), commits_of_types("a", "b")
    with ThreadPoolExecutor(8) as pool:
        for_a = [
            start_waiting(pool, notifier, Head(1), selection) for selection in (ALL, selecting("a"), selecting("a"))
        ]
        for_b = [start_waiting(pool, notifier, Head(1), selecting("b")) for _ in range(3)]
        notifier.publish(first)
        assert [future.result(TEST_TIMEOUT_S) for future in for_a] == [Head(1)] * 3
        assert not any(future.done() for future in for_b)
        notifier.publish(second)
        heads = [future.result(TEST_TIMEOUT_S) for future in for_b]
        assert [(head.session, head.last_event_id) for head in heads if head] == [(1, first.last_event_id)] * 3


def test_wait_without_match_returns_last_head_at_timeout() -> None:
    notifier, commits = followed_notifier(), commits_of_types("a", "a", "a")
    notifier.publish(commits[0])
    for commit in commits[1:]:
        notifier.publish(commit)
    assert notifier.wait(commits[0].head, selecting("b"), 0.0, 0) == commits[2].head


def test_wait_before_recent_commits_returns_at_once() -> None:
    notifier, commits = followed_notifier(), commits_of_types(*["a"] * (MAX_RECENT_COMMITS + 2))
    for commit in commits:
        notifier.publish(commit)
    assert notifier.wait(commits[0].head, selecting("b"), TEST_TIMEOUT_S, 0) == commits[0].head


@pytest.mark.parametrize(("excess_bytes", "is_kept"), [(0, True), (1, False)])
def test_wait_reads_commits_of_up_to_a_mebibyte(excess_bytes: int, is_kept: bool) -> None:
    """A reader at the start reads the log again once the first commit is no longer kept."""
    notifier, (first, second) = followed_notifier(), commits_of_types("large", "large")
    first = first._replace(body=body_of_size(1024))
    second = second._replace(body=body_of_size(1024 * 1024 - 1024 + excess_bytes))
    for commit in (first, second):
        notifier.publish(commit)
    assert notifier.wait(Head(1), selecting("b"), 0.0, 0) == (second.head if is_kept else Head(1))


@pytest.mark.parametrize("head", [Head(1, 1, 1, 1), Head(1, 6, 1, 6), Head(2)])
def test_wait_after_last_commit_ends_with_timeout(head: Head) -> None:
    notifier, (first,) = CommitNotifier(), commits_of_types("a")
    notifier.publish(first)
    assert notifier.wait(head, ALL, 0.0, 0) == head


def test_close_releases_all_waiting_readers() -> None:
    notifier = CommitNotifier()
    with ThreadPoolExecutor(2) as pool:
        futures = [start_waiting(pool, notifier, Head(1), selection) for selection in (ALL, selecting("a"))]
        notifier.close()
        assert [future.result(TEST_TIMEOUT_S) for future in futures] == [None, None]
    assert notifier.wait(Head(1), ALL, TEST_TIMEOUT_S, 0) is None


def test_poll_interval_doubles_up_to_maximum() -> None:
    pauses: list[float] = []
    poller = PollingNotifier(pauses.append)
    assert [poller.wait(Head(1), ALL, 60.0, attempt) for attempt in range(5)] == [Head(1)] * 5
    assert pauses == [INITIAL_POLL_INTERVAL_S * times for times in (1, 2, 4, 8, 8)]


def test_polling_ends_with_new_commit_or_timeout(world: World) -> None:
    polls: list[Head] = []

    def is_fifth_poll(head: Head) -> bool:
        polls.append(head)
        return len(polls) == 5

    poller = PollingNotifier(world.pause, is_fifth_poll, world.monotonic)
    assert poller.wait(Head(1), ALL, 60.0, 0) == Head(1)
    assert (len(polls), len(world.pauses), sorted(world.pauses)) == (5, 5, world.pauses)
    assert poller.wait(Head(1), ALL, 25.0, 0) == Head(1)
    assert sum(world.pauses[5:]) == pytest.approx(25.0)
    assert max(world.pauses) == MAX_POLL_INTERVAL_S
    assert len(polls) < 70


def test_poll_interval_is_limited_by_timeout() -> None:
    pauses: list[float] = []
    assert PollingNotifier(pauses.append).wait(Head(1), ALL, 0.001, 10**6) == Head(1)
    assert pauses == [0.001]


def test_closed_polling_notifier_returns_none() -> None:
    poller = PollingNotifier(lambda _: None)
    poller.close()
    assert poller.wait(Head(1), ALL, 60.0, 0) is None


def test_publish_after_gap_keeps_head_before_the_gap() -> None:
    """Another process wrote the second commit, so the reader must look at the log from the first one on."""
    notifier, (first, _, third) = CommitNotifier(), commits_of_types("a", "b", "c")
    notified: list[str] = []
    subscriptions = {
        name: notifier.subscribe(first.head, selection, lambda name=name: notified.append(name))  # type: ignore[misc]
        for name, selection in {"all": ALL, "b": selecting("b"), "c": selecting("c")}.items()
    }
    notifier.publish(third)
    assert notified == ["all", "b", "c"]
    assert [notifier.unsubscribe(subscription) for subscription in subscriptions.values()] == [first.head] * 3


def test_wait_before_gap_returns_head_before_the_gap() -> None:
    notifier, (first, _, third) = CommitNotifier(), commits_of_types("a", "b", "c")
    notifier.publish(first)
    notifier.publish(third)
    assert notifier.wait(first.head, selecting("b"), TEST_TIMEOUT_S, 0) == first.head


def test_subscribe_after_refresh_of_longer_log_is_notified() -> None:
    """Another process wrote the second and the third commit. The refresh has seen both."""
    notifier, (first, second, third) = CommitNotifier(), commits_of_types("a", "b", "c")
    notifier.unsubscribe(notifier.subscribe(Head(1), ALL, lambda: None))
    notifier.refresh(lambda _: third.head)
    notified: list[int] = []
    for commit in (first, second, third):
        notifier.subscribe(commit.head, ALL, lambda commit=commit: notified.append(commit.session))  # type: ignore[misc]
    assert notified == [1, 2]


def test_subscribe_at_published_end_of_longer_log_is_notified() -> None:
    """The refresh has seen a commit of another process that follows the published one."""
    notifier, (first, second, third) = CommitNotifier(), commits_of_types("a", "b", "c")
    notifier.unsubscribe(notifier.subscribe(Head(1), ALL, lambda: None))
    notifier.refresh(lambda _: third.head)
    notifier.publish(second)
    notified: list[int] = []
    for commit in (first, second, third):
        notifier.subscribe(
            commit.head,
            selecting("c"),
            lambda commit=commit: notified.append(commit.session),  # type: ignore[misc]
        )
    assert notified == [1, 2]


def test_refresh_notifies_subscriber_behind_another() -> None:
    """Another process wrote both commits. One subscriber has read them, the other has not."""
    notifier, (_, second) = CommitNotifier(), commits_of_types("a", "b")
    notified: list[str] = []
    notifier.subscribe(Head(1), ALL, lambda: notified.append("behind"))
    notifier.subscribe(second.head, ALL, lambda: notified.append("at the end"))
    notifier.refresh(lambda _: second.head)
    assert "behind" in notified


def keyed_commit(*keys: str, head: Head = START) -> Commit:
    """A commit with an event for each key."""
    events = [NewEvent(type=("a",), key=key) for key in keys]
    return next_commit(head, Append(head.server, encode_within_limits(events), "r"), 0)


def long_query() -> Selection:
    """As many patterns as a query may have."""
    patterns = [("?", "?", f"x{number}") for number in range(MAX_TERMS)]
    items = tuple(QueryItem(types=tuple(patterns[start : start + 10])) for start in range(0, MAX_TERMS, 10))
    check_terms(items)
    return select_any(items)


@pytest.fixture
def matched_events(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The EventIds of all events that a selection was compared with."""
    event_ids: list[int] = []
    selects = Selection.selects

    def count(selection: Selection, event: Event) -> bool:
        event_ids.append(event.event_id)
        return selects(selection, event)

    monkeypatch.setattr(Selection, "selects", count)
    return event_ids


def test_publish_does_not_match_followers_of_other_keys(matched_events: list[int]) -> None:
    notifier, notified = CommitNotifier(), list[str]()
    for number in range(2_000):
        key = f"/job/{number}"
        notifier.subscribe(Head(1), Selection(keys=(key,)), lambda key=key: notified.append(key))  # type: ignore[misc]
    first = keyed_commit(*(f"/order/{number}" for number in range(1_000)))
    notifier.publish(first)
    assert (notified, matched_events) == ([], [])
    notifier.publish(keyed_commit("/job/7", "/job/9", "/job/7", head=first.head))
    assert sorted(notified) == ["/job/7", "/job/9"]
    assert len(matched_events) <= 6


def test_publish_does_not_compare_many_events_with_long_query(matched_events: list[int]) -> None:
    """The server thread publishes, and must not compare a million patterns. The reader does it in a worker thread."""
    notifier, notified = CommitNotifier(), list[str]()
    commit = keyed_commit(*(f"/job/{number}" for number in range(1_000)))
    subscription = notifier.subscribe(Head(1), long_query(), lambda: notified.append("long"))
    notifier.subscribe(Head(1), selecting("b"), lambda: notified.append("short"))
    notifier.publish(commit)
    assert notified == ["long"]
    assert notifier.unsubscribe(subscription) == Head(1)
    assert len(matched_events) == 1_000  # those of the short query


def test_subscribe_does_not_compare_many_events_with_long_query(matched_events: list[int]) -> None:
    notifier = followed_notifier()
    notifier.publish(keyed_commit(*(f"/job/{number}" for number in range(1_000))))
    assert notifier.wait(Head(1), long_query(), TEST_TIMEOUT_S, 0) == Head(1)
    assert matched_events == []


@given(
    st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3), min_size=1, max_size=3),
    st.lists(st.lists(st.lists(st.sampled_from("abcd"), max_size=2), min_size=1, max_size=2), max_size=6),
)
def test_publish_wakes_followers_of_keys_like_matching_all(
    commits: list[list[str]], followers: list[list[list[str]]]
) -> None:
    """A follower has a list of items, each with keys. An item without keys selects all events of type a."""
    notifier, woken = CommitNotifier(), dict[int, int]()
    selections = [
        select_any(tuple(QueryItem(types=(("a",),), keys=tuple(keys) or None) for keys in items)) for items in followers
    ]
    head = Head(1)
    for number, selection in enumerate(selections):
        notifier.subscribe(head, selection, lambda number=number: woken.update({number: head.session}))  # type: ignore[misc]
    expected: dict[int, int] = {}
    for keys in commits:
        commit = keyed_commit(*keys, head=head)
        for number, selection in enumerate(selections):
            if any(map(selection.selects, commit.events)):
                expected.setdefault(number, head.session)
        notifier.publish(commit)
        head = commit.head
    assert woken == expected
