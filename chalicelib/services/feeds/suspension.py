"""Waiting: reading as a series of steps, so that whoever takes them decides how to wait.

A thread may wait for each of them; a server with a thousand readers puts them aside instead, and takes the next step
when what they wait for has come.
"""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeVar, final

from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.ports import Wake

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until something selected comes after `seen`, for `timeout_s` at most.

    Whoever takes the steps sends back the head up to which nothing selected came, or None if the process ends.
    """

    seen: Head
    selection: Selection
    timeout_s: float
    turn: int = 0
    """How many times in a row it was waited in vain."""


@final
class _End:
    """The type of `END`."""


END: Final = _End()
"""There are no more steps."""

Reading = Generator[Wait, Head | None, T]
"""Steps to a result."""
Stream = Generator[Wait | T, Head | None, None]
"""Steps to one piece after the other."""


def waited(reading: Reading[T], wake: Wake) -> T:
    """Take all steps, waiting in this thread; the result."""
    known: Head | None = None
    try:
        wait = next(reading)
        while True:
            known = wake.wait(wait.seen, wait.selection, wait.timeout_s, wait.turn)
            wait = reading.send(known)
    except StopIteration as end:
        result: T = end.value
        return result


def at_once(reading: Reading[T]) -> T:
    """The result of a reading that has no time to wait."""
    try:
        wait = next(reading)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError(f"nobody may wait here: {wait}")


def pieces(stream: Stream[T], wake: Wake) -> Iterator[T]:
    """One piece after the other, waiting for them in this thread."""
    while not isinstance(piece := waited(next_piece(stream), wake), _End):
        yield piece


def mapped(stream: Stream[T], each: Callable[[T], U]) -> Stream[U]:
    """The stream with each piece made into another."""
    while not isinstance(piece := (yield from next_piece(stream)), _End):
        made = [each(piece)]
        del piece  # whoever reads slowly holds what it has not read, and no more
        yield made.pop()


def until(stream: Stream[T], seconds: float, monotonic: Callable[[], float] = time.monotonic) -> Stream[T]:
    """The stream for so long, and no longer, however much it has to tell."""
    ends_at = monotonic() + seconds
    step = _step(stream, None)
    while not isinstance(step, _End) and (left_s := ends_at - monotonic()) > 0:
        given = [replace(step, timeout_s=min(step.timeout_s, left_s)) if isinstance(step, Wait) else step]
        del step  # as above
        known = yield given.pop()
        step = _step(stream, known)
    stream.close()


def next_piece(stream: Stream[T]) -> Reading[T | _End]:
    """Steps to the stream's next piece, or `END`."""
    try:
        step = next(stream)
        while isinstance(step, Wait):
            known = yield step
            step = stream.send(known)
    except StopIteration:
        return END
    return step


def _step(stream: Stream[T], known: Head | None) -> Wait | T | _End:
    """The stream's next step, or `END`."""
    try:
        return stream.send(known)
    except StopIteration:
        return END
