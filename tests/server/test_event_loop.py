"""The event loop: wake-ups, timers and failing callbacks."""

import selectors
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from infra.server.http.event_loop import MIN_STALE_TIMERS, EventLoop

TIMEOUT_S = 15.0


@pytest.fixture(name="loop")
def fixture_loop() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


def run_until(loop: EventLoop, calls: list[str], number: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while len(calls) < number:
        assert time.monotonic() < deadline, calls
        loop.run_once(max_wait_s=TIMEOUT_S)


def test_timers_are_called_in_the_order_of_their_deadlines(loop: EventLoop) -> None:
    calls: list[str] = []
    now = time.monotonic()
    for delay_s in (0.03, 0.01, 0.02):
        loop.call_at(now + delay_s, lambda delay_s=delay_s: calls.append(str(delay_s)))  # type: ignore[misc]
    run_until(loop, calls, 3)
    assert calls == ["0.01", "0.02", "0.03"]
    assert time.monotonic() >= now + 0.03


@pytest.mark.parametrize(("first_s", "second_s"), [(0.0, 0.02), (60.0, 0.02)])
def test_timer_set_again_is_called_once_at_the_new_deadline(first_s: float, second_s: float, loop: EventLoop) -> None:
    calls: list[str] = []
    now = time.monotonic()
    timer = loop.timer(lambda: calls.append("timer"))
    timer.set(now + first_s)
    timer.set(now + second_s)
    loop.call_at(now + 2 * second_s, lambda: calls.append("end"))
    run_until(loop, calls, 2)
    assert calls == ["timer", "end"]


def test_cancelled_timer_is_not_called(loop: EventLoop) -> None:
    calls: list[str] = []
    now = time.monotonic()
    loop.call_at(now, lambda: calls.append("cancelled")).cancel()
    loop.call_at(now + 0.01, lambda: calls.append("end"))
    run_until(loop, calls, 1)
    assert calls == ["end"]


def test_cancelled_timers_are_removed(loop: EventLoop) -> None:
    for _ in range(100 * MIN_STALE_TIMERS):
        loop.call_at(time.monotonic() + 600, lambda: None).cancel()
    assert len(loop._timers) <= MIN_STALE_TIMERS + 1


def test_call_soon_from_another_thread_wakes_the_loop(loop: EventLoop) -> None:
    calls: list[str] = []
    threading.Timer(0.01, loop.call_soon, [lambda: calls.append(threading.current_thread().name)]).start()
    run_until(loop, calls, 1)
    assert calls == [threading.current_thread().name]


def test_call_soon_within_a_callback_is_called_next_turn(loop: EventLoop) -> None:
    calls: list[str] = []
    loop.call_soon(lambda: loop.call_soon(lambda: calls.append("inner")))
    loop.run_once()
    assert calls == []
    loop.run_once()
    assert calls == ["inner"]


def test_failing_callbacks_are_logged_and_do_not_stop_others(loop: EventLoop, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def fail(*_: object) -> None:
        calls.append("failed")
        raise RuntimeError("no")

    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop.register(ours, selectors.EVENT_READ, fail)
        theirs.send(b"x")
        loop.call_soon(fail)
        loop.call_at(0.0, fail)
        loop.call_soon(lambda: calls.append("called"))
        loop.run_once()
        loop.unregister(ours)
    assert sorted(calls) == ["called", *["failed"] * 3]
    assert caplog.messages == ["unexpected error in an event loop callback"] * 3


def test_timer_is_called_exactly_at_its_deadline(loop: EventLoop) -> None:
    called: list[float] = []
    loop.call_at(5.0, lambda: called.append(5.0))
    loop.call_at(5.1, lambda: called.append(5.1))
    loop._run_timers(5.0)
    assert called == [5.0]
