"""The two ways to learn that a log has grown."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.services.wakes import FIRST_LOOK_S, LATEST_LOOK_S, Bell, Looking

PATIENCE_S = 30.0


def test_a_bell_that_was_rung_lets_nobody_wait() -> None:
    bell = Bell()
    bell.ring(1, 5)
    assert bell.wait(1, 4, PATIENCE_S, 0)


def test_a_bell_wakes_all_who_wait() -> None:
    bell, waiting = Bell(), threading.Barrier(5)

    def wait(session: int) -> bool:
        waiting.wait(PATIENCE_S)
        return bell.wait(1, session, PATIENCE_S, 0)

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(wait, session) for session in (1, 2, 3, 4)]
        waiting.wait(PATIENCE_S)
        bell.ring(1, 5)
        assert [answer.result(PATIENCE_S) for answer in answers] == [True] * 4


@pytest.mark.parametrize(("server", "session"), [(1, 5), (1, 6), (2, 0)])
def test_whoever_has_seen_it_all_waits_for_the_timeout(server: int, session: int) -> None:
    bell = Bell()
    bell.ring(1, 5)
    bell.ring(1, 3)
    assert bell.wait(server, session, 0.0, 0)


def test_a_closed_bell_sends_everybody_home() -> None:
    bell, waiting = Bell(), threading.Barrier(3)

    def wait() -> bool:
        waiting.wait(PATIENCE_S)
        return bell.wait(1, 0, float("inf"), 0)

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(wait) for _ in range(2)]
        waiting.wait(PATIENCE_S)
        bell.close()
        assert [answer.result(PATIENCE_S) for answer in answers] == [False, False]
    assert not bell.wait(1, 0, PATIENCE_S, 0)


def test_looking_again_is_soon_at_first_and_then_less_often() -> None:
    pauses: list[float] = []
    looking = Looking(pauses.append)
    assert all(looking.wait(1, 0, 60.0, turn) for turn in range(6))
    assert pauses == [FIRST_LOOK_S, 2 * FIRST_LOOK_S, 4 * FIRST_LOOK_S, 8 * FIRST_LOOK_S, LATEST_LOOK_S, LATEST_LOOK_S]


def test_nobody_looks_again_later_than_the_timeout() -> None:
    pauses: list[float] = []
    assert Looking(pauses.append).wait(1, 0, 0.001, 10**6)
    assert pauses == [0.001]


def test_once_closed_nobody_looks_again() -> None:
    looking = Looking(lambda _: None)
    looking.close()
    assert not looking.wait(1, 0, 60.0, 0)
