"""What calls do, apart from doing it: no server, no time."""

from collections.abc import Callable, Generator
from datetime import datetime
from typing import Any

import pytest

from annals_client import NewEvent, NotAllowed, Torn, Unavailable, Unexpected
from annals_client.calls import events, observers
from annals_client.sans_io import Answer, Ask, Give, Lost, Manners, Outcome, Pause, Request, ask

LATER = Answer(503, {"retry-after": "2"}, b"")
EMPTY = Answer(200, {}, b"{}")
LOST = Lost("reset")


class World:
    """A clock that pauses move on, and dice that always throw the highest."""

    def __init__(self, deadline_s: float = 60.0) -> None:
        self.now_s = 0.0
        self.manners = Manners(deadline_s, clock=lambda: self.now_s, jittered=lambda most: most, new_key=lambda: "k")
        self.pauses: list[float] = []
        self.asked: list[Ask] = []
        self.given: list[Any] = []

    def run(self, steps: Generator[Any, Outcome, Any], outcome: Callable[[int], Outcome]) -> Any:
        """Take the steps; the nth request has the nth outcome."""
        last: Outcome = None
        while True:
            try:
                step = steps.send(last)
            except StopIteration as end:
                return end.value
            last = self._taken(step, outcome)

    def _taken(self, step: object, outcome: Callable[[int], Outcome]) -> Outcome:
        match step:
            case Pause(seconds=seconds):
                self.pauses.append(seconds)
                self.now_s += seconds
            case Give(value=value):
                self.given.append(value)
            case Ask():
                self.asked.append(step)
                return outcome(len(self.asked))
        return None


GET = Request("GET", "/me")


def test_pauses_double_up_to_a_limit() -> None:
    world = World(deadline_s=60)
    world.run(ask(world.manners, GET), lambda n: LOST if n < 11 else EMPTY)
    assert world.pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10, 10])


def test_a_follower_tries_for_days() -> None:
    world = World()
    world.run(ask(world.manners, GET, deadline_s=float("inf")), lambda n: LOST if n < 5000 else EMPTY)
    assert world.now_s > 40_000


def test_retry_after_is_waited_for_and_jitter_comes_on_top() -> None:
    world = World()
    world.run(ask(world.manners, GET), lambda n: LATER if n == 1 else EMPTY)
    assert world.pauses == [2.2]


@pytest.mark.parametrize("said", ["", "soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "٣"])
def test_a_retry_after_that_is_no_number_of_seconds_is_passed_over(said: str) -> None:
    world = World()
    world.run(ask(world.manners, GET), lambda n: Answer(503, {"retry-after": said}, b"") if n == 1 else EMPTY)
    assert world.pauses == [0.2]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_says_later_is_asked_later(status: int) -> None:
    world = World()
    world.run(ask(world.manners, GET), lambda n: Answer(status, {}, b"") if n == 1 else EMPTY)
    assert len(world.asked) == 2


def test_a_pause_that_would_end_after_the_deadline_is_not_begun() -> None:
    world = World(deadline_s=5)
    with pytest.raises(Unavailable, match=r"the server says 503: not now \(asked 3 times\)"):
        world.run(ask(world.manners, GET), lambda _: LATER)
    assert world.pauses == [2.2, 2.4]


def test_no_request_may_take_longer_than_is_left() -> None:
    world = World(deadline_s=7)
    world.run(ask(world.manners, GET), lambda n: LATER if n == 1 else EMPTY)
    assert [step.timeout_s for step in world.asked] == pytest.approx([7, 4.8])


def test_what_is_refused_is_not_asked_again() -> None:
    world = World()
    refusal = Answer(403, {}, b'{"detail": "not yours"}')
    with pytest.raises(NotAllowed, match="not yours"):
        world.run(ask(world.manners, GET), lambda _: refusal)
    assert len(world.asked) == 1


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b"7", b"\xff"])
def test_an_answer_that_is_not_annals_is_unexpected(content: bytes) -> None:
    world = World()
    steps = events.publish(world.manners, [])
    with pytest.raises(Unexpected):
        world.run(steps, lambda _: Answer(200, {}, content))


def test_repeats_are_the_same_request_with_the_same_key() -> None:
    world = World()
    answers: list[Outcome] = [LOST, LATER, Answer(201, {}, b'{"events": [], "eventId": 7}')]
    steps = events.publish(world.manners, [NewEvent("a/b", key="/k")])
    world.run(steps, lambda n: answers[n - 1])
    assert {step.request.content for step in world.asked} == {b'{"events": [{"type": ["a", "b"], "key": "/k"}]}'}
    assert [dict(step.request.headers) for step in world.asked] == [{"Idempotency-Key": "k"}] * 3


def test_a_time_without_a_zone_is_refused() -> None:
    steps = events.publish(Manners(), [NewEvent("a", source_timestamp=datetime(2026, 1, 1))])
    with pytest.raises(ValueError, match="needs a time zone"):
        next(steps)


def test_a_server_that_does_not_wait_is_not_asked_at_once() -> None:
    world = World()
    steps = events.follow(world.manners)
    nothing, torn = b'{"TYPE": "Empty", "eventId": 7}', b'{"TYPE": "Torn", "eventId": 9}'
    with pytest.raises(Torn):
        world.run(steps, lambda n: Answer(200, {}, nothing if n < 4 else torn))
    assert world.pauses == [1.0] * 3
    assert [step.request.target for step in world.asked] == [
        "/events?timeout=25.0s",
        *["/events?after=7&timeout=25.0s"] * 3,
    ]


def test_failures_are_asked_for_page_by_page() -> None:
    world = World()
    pages = [b'{"failures": [{"id": "a"}, {"id": "b"}]}', b'{"failures": [{"id": "c"}]}']
    steps = observers.failures(world.manners, "ops", page=2)
    world.run(steps, lambda n: Answer(200, {}, pages[n - 1]))
    assert world.given == [{"id": "a"}, {"id": "b"}, {"id": "c"}]
    assert [step.request.target for step in world.asked] == [
        "/observers/ops/failures?limit=2",
        "/observers/ops/failures?limit=2&after=b",
    ]


def test_a_replay_goes_on_by_its_name_until_it_is_done() -> None:
    world = World()
    parts = [
        b'{"replay": "k", "eventId": 50, "until": 90, "deliveries": 3, "done": false}',
        b'{"replay": "k", "eventId": 90, "until": 90, "deliveries": 2, "done": true}',
    ]
    steps = observers.replay(world.manners, "ops", after=7)
    world.run(steps, lambda n: Answer(200, {}, parts[n - 1]))
    assert [(part.event_id, part.deliveries, part.is_done) for part in world.given] == [(50, 3, False), (90, 5, True)]
    assert [step.request.body for step in world.asked] == [
        {"replay": "k", "after": 7},
        {"replay": "k", "after": 50, "until": 90},
    ]
