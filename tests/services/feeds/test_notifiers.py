"""The two ways to learn that a log has grown."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.feeds.notifiers import FIRST_LOOK_S, LATEST_LOOK_S, REMEMBERED, Bell, Looking
from tests.services.worlds import World

PATIENCE_S = 30.0
ALL = Selection()


def only(name: str) -> Selection:
    return Selection(types=((name,),))


def history(*names: str, server: int = 1) -> list[Commit]:
    """A commit with one event of each type."""
    head, commits = Head(server), []
    for name in names:
        commits.append(next_commit(head, Append(server, encoded([NewEvent(type=(name,))]), "r"), 0))
        head = commits[-1].head
    return commits


def waiting(pool: ThreadPoolExecutor, bell: Bell, seen: Head, selection: Selection) -> "Future[Head | None]":
    """Somebody who certainly waits."""
    began = threading.Event()

    def wait() -> Head | None:
        began.set()
        return bell.wait(seen, selection, PATIENCE_S, 0)

    future = pool.submit(wait)
    began.wait(PATIENCE_S)
    return future


def test_a_bell_that_was_rung_lets_nobody_wait() -> None:
    bell, (first, second) = Bell(), history("a", "b")
    bell.ring(first)
    bell.ring(second)
    assert bell.wait(first.head, ALL, PATIENCE_S, 0) == first.head


def test_a_bell_tells_how_far_nothing_has_come() -> None:
    bell, (first, second, third) = Bell(), history("a", "a", "b")
    for commit in (first, second, third):
        bell.ring(commit)
    assert bell.wait(Head(1), only("b"), PATIENCE_S, 0) == second.head
    assert bell.wait(Head(1), only("c"), 0.0, 0) == third.head


def test_a_bell_wakes_all_who_wait_for_what_comes_and_nobody_else() -> None:
    bell, (first, second) = Bell(), history("a", "b")
    with ThreadPoolExecutor(8) as pool:
        for_a = [waiting(pool, bell, Head(1), selection) for selection in (ALL, only("a"), only("a"))]
        for_b = [waiting(pool, bell, Head(1), only("b")) for _ in range(3)]
        bell.ring(first)
        assert [answer.result(PATIENCE_S) for answer in for_a] == [Head(1)] * 3
        assert not any(answer.done() for answer in for_b)
        bell.ring(second)
        heads = [answer.result(PATIENCE_S) for answer in for_b]
        assert [(head.session, head.last) for head in heads if head] == [(1, first.last)] * 3


def test_whoever_is_not_woken_knows_at_the_end_that_nothing_came() -> None:
    bell, commits = Bell(), history("a", "a", "a")
    bell.ring(commits[0])
    for commit in commits[1:]:
        bell.ring(commit)
    assert bell.wait(commits[0].head, only("b"), 0.0, 0) == commits[2].head


def test_whoever_comes_too_late_for_the_bells_memory_has_to_look() -> None:
    bell, commits = Bell(), history(*["a"] * (REMEMBERED + 2))
    for commit in commits:
        bell.ring(commit)
    assert bell.wait(commits[0].head, only("b"), PATIENCE_S, 0) == commits[0].head


@pytest.mark.parametrize("seen", [Head(1, 1, 1, 1), Head(1, 6, 1, 6), Head(2)])
def test_whoever_has_seen_it_all_waits_for_the_timeout(seen: Head) -> None:
    bell, (first,) = Bell(), history("a")
    bell.ring(first)
    assert bell.wait(seen, ALL, 0.0, 0) == seen


def test_a_closed_bell_sends_everybody_home() -> None:
    bell = Bell()
    with ThreadPoolExecutor(2) as pool:
        answers = [waiting(pool, bell, Head(1), selection) for selection in (ALL, only("a"))]
        bell.close()
        assert [answer.result(PATIENCE_S) for answer in answers] == [None, None]
    assert bell.wait(Head(1), ALL, PATIENCE_S, 0) is None


def test_looking_again_is_soon_at_first_and_then_less_often() -> None:
    pauses: list[float] = []
    looking = Looking(pauses.append)
    assert [looking.wait(Head(1), ALL, 60.0, turn) for turn in range(5)] == [Head(1)] * 5
    assert pauses == [FIRST_LOOK_S * times for times in (1, 2, 4, 8, 8)]


def test_only_what_has_come_ends_the_looking_and_the_time_that_is_up(world: World) -> None:
    looks: list[Head] = []

    def comes_with_the_fifth(seen: Head) -> bool:
        looks.append(seen)
        return len(looks) == 5

    looking = Looking(world.pause, comes_with_the_fifth, world.monotonic)
    assert looking.wait(Head(1), ALL, 60.0, 0) == Head(1)
    assert (len(looks), len(world.pauses), sorted(world.pauses)) == (5, 5, world.pauses)
    assert looking.wait(Head(1), ALL, 25.0, 0) == Head(1)
    assert sum(world.pauses[5:]) == pytest.approx(25.0)
    assert max(world.pauses) == LATEST_LOOK_S
    assert len(looks) < 70


def test_nobody_looks_again_later_than_the_timeout() -> None:
    pauses: list[float] = []
    assert Looking(pauses.append).wait(Head(1), ALL, 0.001, 10**6) == Head(1)
    assert pauses == [0.001]


def test_once_closed_nobody_looks_again() -> None:
    looking = Looking(lambda _: None)
    looking.close()
    assert looking.wait(Head(1), ALL, 60.0, 0) is None
