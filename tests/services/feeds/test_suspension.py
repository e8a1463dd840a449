"""Waiting as a series of steps: whoever takes them decides how to wait."""

from collections.abc import Callable
from typing import Any

import pytest

from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.feeds.suspension import (
    END,
    Reading,
    Stream,
    Wait,
    at_once,
    mapped,
    next_piece,
    pieces,
    until,
    waited,
)

FIRST, SECOND = Head(1, 1, 1, 10), Head(1, 2, 1, 20)
SELECTION = Selection(types=(("a",),))


class Scripted:
    """A wake that answers each wait with the next of the test's heads."""

    def __init__(self, *answers: Head | None) -> None:
        self._answers = list(answers)
        self.waits: list[Wait] = []

    def wait(self, seen: Head, selection: Selection, timeout_s: float, turn: int) -> Head | None:
        self.waits.append(Wait(seen, selection, timeout_s, turn))
        return self._answers.pop(0)

    def close(self) -> None:
        self._answers = [None] * len(self._answers)


def reading(*waits: Wait) -> Reading[list[Head | None]]:
    """Wait so many times; what was told then."""
    heads = []
    for wait in waits:
        heads.append((yield wait))
    return heads


def streaming(*steps: Wait | str | None) -> Stream[str | None]:
    """These pieces and waits; what is told after a wait is a piece too."""
    for step in steps:
        if isinstance(step, Wait):
            known = yield step
            yield f"known {known.session if known else None}"
        else:
            yield step


def failing() -> Stream[str]:
    yield "a piece"
    yield Wait(FIRST, SELECTION, 1.0)
    raise ConnectionError("the store is gone")


WAITS = (Wait(FIRST, SELECTION, 2.5, 0), Wait(SECOND, SELECTION, 1.5, 1))


def test_whoever_waits_in_a_thread_takes_all_steps_and_has_the_result() -> None:
    wake = Scripted(SECOND, None)
    assert waited(reading(*WAITS), wake) == [SECOND, None]
    assert wake.waits == list(WAITS)


def test_what_needs_no_waiting_does_not_wait() -> None:
    wake = Scripted()
    assert waited(reading(), wake) == []
    assert at_once(reading()) == []
    assert wake.waits == []


def test_whoever_has_no_time_must_not_be_made_to_wait() -> None:
    with pytest.raises(AssertionError, match="nobody may wait here"):
        at_once(reading(WAITS[0]))


def test_pieces_come_one_after_the_other_whatever_lies_between() -> None:
    wake = Scripted(SECOND, None)
    stream = streaming("a", WAITS[0], None, "b", WAITS[1], "")
    assert list(pieces(stream, wake)) == ["a", "known 2", None, "b", "known None", ""]
    assert wake.waits == list(WAITS)


def test_a_piece_comes_before_the_next_wait() -> None:
    wake = Scripted(SECOND)
    found = pieces(streaming("a", WAITS[0]), wake)
    assert (next(found), wake.waits) == ("a", [])
    assert (next(found), wake.waits) == ("known 2", [WAITS[0]])


def test_a_stream_without_pieces_is_at_its_end() -> None:
    assert list(pieces(streaming(), Scripted())) == []
    stream = streaming("a")
    assert [at_once(next_piece(stream)) for _ in range(3)] == ["a", END, END]


def test_a_mapped_stream_waits_like_the_other_and_maps_all_pieces() -> None:
    wake = Scripted(SECOND)
    stream: Stream[str] = mapped(streaming(None, WAITS[0], "b"), lambda piece: f"<{piece}>")
    assert list(pieces(stream, wake)) == ["<None>", "<known 2>", "<b>"]
    assert wake.waits == [WAITS[0]]


def test_a_stream_with_an_end_is_cut_there_however_much_it_has_to_tell() -> None:
    wake, times = Scripted(SECOND), iter([10.0, 10.0, 10.5, 11.0, 12.0])
    stream = until(streaming("a", WAITS[0], "b"), 2.0, lambda: next(times))
    assert list(pieces(stream, wake)) == ["a", "known 2"]
    assert [wait.timeout_s for wait in wake.waits] == [1.5]


def test_a_stream_that_ends_before_its_time_is_whole() -> None:
    assert list(pieces(until(streaming("a", WAITS[0]), 60.0), Scripted(SECOND))) == ["a", "known 2"]


def test_steps_can_be_taken_by_hand() -> None:
    steps = next_piece(streaming(WAITS[0]))
    assert next(steps) == WAITS[0]
    with pytest.raises(StopIteration) as end:
        steps.send(SECOND)
    assert end.value.value == "known 2"


WAYS: dict[str, Callable[[Stream[str], Scripted], Any]] = {
    "pieces": lambda stream, wake: list(pieces(stream, wake)),
    "mapped": lambda stream, wake: list(pieces(mapped(stream, str.upper), wake)),
    "with an end": lambda stream, wake: list(pieces(until(stream, 60.0), wake)),
    "one by one": lambda stream, wake: [waited(next_piece(stream), wake) for _ in range(2)],
}


@pytest.mark.parametrize("way", WAYS)
def test_what_goes_wrong_on_the_way_is_told(way: str) -> None:
    with pytest.raises(ConnectionError, match="the store is gone"):
        WAYS[way](failing(), Scripted(SECOND))
