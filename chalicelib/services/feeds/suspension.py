"""Suspendable reads: generators that say when they must wait, and leave the waiting to their driver.

A long poll spends most of its time waiting for new commits. Written as a generator, the same read can run on a thread
that blocks (`run_blocking`) or in a server that parks thousands of reads without a thread for each.

The protocol between a read and its driver:

- The read yields a `Wait` when it can only continue after a new commit.
- The driver waits until a matching commit may exist, or until `Wait.timeout_s` has passed. It then resumes the read
  with `send(head)`: no matching event was committed up to `head`, which is `Wait.head` or a later position.
- The driver sends `None` instead if the process is shutting down. The read then returns early.
- A `SuspendableRead[T]` finishes by returning its result.
- A `Stream[T]` also yields items of type `T` between waits. The driver resumes it after an item with `send(None)`,
  and it finishes by returning nothing.
- The driver may call `close()` at any yield to abandon the read, for example when the client has disconnected.

States of a read:

    [created] --next()--> [running] --return--> [finished]
                           |     ^                  ^
          yield Wait or item     | send             | close()
                           v     |                  |
                         [suspended] ---------------+

Reads hold no locks and no database transactions while suspended. Only one thread at a time may drive a read, but it
may be a different thread after each suspension.
"""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeVar, final

from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.ports import ChangeNotifier

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Wait:
    """A request to be resumed once a selected event may exist after `head`, or after `timeout_s` at the latest."""

    head: Head
    selection: Selection
    timeout_s: float
    attempt: int = 0
    """Number of consecutive waits before this one that brought no selected event."""
    is_expensive: bool = False
    """Whether the read may take long when it is resumed, so that a thread that drives many reads should not do it."""


@final
class _End:
    """The type of `END`."""


END: Final = _End()
"""Marks the end of a stream in the result of `next_item`."""

SuspendableRead = Generator[Wait, Head | None, T]
"""Yields waits and returns one result."""
Stream = Generator[Wait | T, Head | None, None]
"""Yields waits and items."""


def run_blocking(read: SuspendableRead[T], notifier: ChangeNotifier) -> T:
    """Drive `read` to its result. Waits block the calling thread."""
    try:
        wait = next(read)
        while True:
            head = notifier.wait(wait.head, wait.selection, wait.timeout_s, wait.attempt)
            wait = read.send(head)
    except StopIteration as end:
        result: T = end.value
        return result


def run_without_waiting(read: SuspendableRead[T]) -> T:
    """Drive a read whose timeout is zero. Raises `AssertionError` if it tries to wait."""
    try:
        wait = next(read)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError(f"a read without timeout tried to wait: {wait}")


def iterate(stream: Stream[T], notifier: ChangeNotifier) -> Iterator[T]:
    """Iterate over the items of `stream`. Waits block the calling thread."""
    while not isinstance(item := run_blocking(next_item(stream), notifier), _End):
        yield item


def map_stream(stream: Stream[T], function: Callable[[T], U]) -> Stream[U]:
    """Apply `function` to each item."""
    while not isinstance(item := (yield from next_item(stream)), _End):
        results = [function(item)]
        # A slow client suspends this frame for long: it must not keep items alive that were already handed over.
        del item
        yield results.pop()


def with_deadline(stream: Stream[T], seconds: float, monotonic: Callable[[], float] = time.monotonic) -> Stream[T]:
    """End `stream` after `seconds`, even if it has more items."""
    deadline = monotonic() + seconds
    step = _next_step(stream, None)
    while not isinstance(step, _End) and (remaining_s := deadline - monotonic()) > 0:
        steps = [replace(step, timeout_s=min(step.timeout_s, remaining_s)) if isinstance(step, Wait) else step]
        del step  # As in `map_stream`.
        head = yield steps.pop()
        step = _next_step(stream, head)
    stream.close()


def next_item(stream: Stream[T]) -> SuspendableRead[T | _End]:
    """Read the next item of `stream`, or `END`."""
    try:
        step = next(stream)
        while isinstance(step, Wait):
            head = yield step
            step = stream.send(head)
    except StopIteration:
        return END
    return step


def _next_step(stream: Stream[T], head: Head | None) -> Wait | T | _End:
    try:
        return stream.send(head)
    except StopIteration:
        return END
