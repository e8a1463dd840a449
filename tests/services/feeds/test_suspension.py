"""Suspendable reads and their drivers."""

from collections.abc import Callable
from typing import Any

import pytest

from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.feeds.suspension import (
    END,
    Stream,
    SuspendableRead,
    Wait,
    iterate,
    map_stream,
    next_item,
    run_blocking,
    run_without_waiting,
    with_deadline,
)

FIRST, SECOND = Head(1, 1, 1, 10), Head(1, 2, 1, 20)
SELECTION = Selection(types=(("a",),))


class ScriptedNotifier:
    """A notifier that returns the given heads, one per wait."""

    def __init__(self, *heads: Head | None) -> None:
        self._heads = list(heads)
        self.waits: list[Wait] = []

    def wait(self, head: Head, selection: Selection, timeout_s: float, attempt: int) -> Head | None:
        self.waits.append(Wait(head, selection, timeout_s, attempt))
        return self._heads.pop(0)

    def close(self) -> None:
        self._heads = [None] * len(self._heads)


def read_with_waits(*waits: Wait) -> SuspendableRead[list[Head | None]]:
    """Yield the waits and return the heads that were sent."""
    heads = []
    for wait in waits:
        heads.append((yield wait))
    return heads


def stream_of(*steps: Wait | str | None) -> Stream[str | None]:
    """Yield items and waits, and after each wait an item that names the head sent."""
    for step in steps:
        if isinstance(step, Wait):
            head = yield step
            yield f"head {head.session if head else None}"
        else:
            yield step


def failing_stream() -> Stream[str]:
    yield "an item"
    yield Wait(FIRST, SELECTION, 1.0)
    raise ConnectionError("the store is gone")


WAITS = (Wait(FIRST, SELECTION, 2.5, 0), Wait(SECOND, SELECTION, 1.5, 1))


def test_run_blocking_passes_waits_to_notifier() -> None:
    notifier = ScriptedNotifier(SECOND, None)
    assert run_blocking(read_with_waits(*WAITS), notifier) == [SECOND, None]
    assert notifier.waits == list(WAITS)


def test_run_of_read_without_waits_does_not_wait() -> None:
    notifier = ScriptedNotifier()
    assert run_blocking(read_with_waits(), notifier) == []
    assert run_without_waiting(read_with_waits()) == []
    assert notifier.waits == []


def test_run_without_waiting_raises_if_read_waits() -> None:
    with pytest.raises(AssertionError, match="a read without timeout tried to wait"):
        run_without_waiting(read_with_waits(WAITS[0]))


def test_iterate_returns_all_items_between_waits() -> None:
    notifier = ScriptedNotifier(SECOND, None)
    stream = stream_of("a", WAITS[0], None, "b", WAITS[1], "")
    assert list(iterate(stream, notifier)) == ["a", "head 2", None, "b", "head None", ""]
    assert notifier.waits == list(WAITS)


def test_iterate_returns_item_before_next_wait() -> None:
    notifier = ScriptedNotifier(SECOND)
    items = iterate(stream_of("a", WAITS[0]), notifier)
    assert (next(items), notifier.waits) == ("a", [])
    assert (next(items), notifier.waits) == ("head 2", [WAITS[0]])


def test_next_item_at_end_returns_end() -> None:
    assert list(iterate(stream_of(), ScriptedNotifier())) == []
    stream = stream_of("a")
    assert [run_without_waiting(next_item(stream)) for _ in range(3)] == ["a", END, END]


def test_map_stream_maps_items_and_keeps_waits() -> None:
    notifier = ScriptedNotifier(SECOND)
    stream: Stream[str] = map_stream(stream_of(None, WAITS[0], "b"), lambda item: f"<{item}>")
    assert list(iterate(stream, notifier)) == ["<None>", "<head 2>", "<b>"]
    assert notifier.waits == [WAITS[0]]


def test_with_deadline_ends_stream_at_deadline() -> None:
    notifier, times = ScriptedNotifier(SECOND), iter([10.0, 10.0, 10.5, 11.0, 12.0])
    stream = with_deadline(stream_of("a", WAITS[0], "b"), 2.0, lambda: next(times))
    assert list(iterate(stream, notifier)) == ["a", "head 2"]
    assert [wait.timeout_s for wait in notifier.waits] == [1.5]


def test_with_deadline_keeps_stream_that_ends_earlier() -> None:
    assert list(iterate(with_deadline(stream_of("a", WAITS[0]), 60.0), ScriptedNotifier(SECOND))) == ["a", "head 2"]


def test_next_item_can_be_driven_manually() -> None:
    steps = next_item(stream_of(WAITS[0]))
    assert next(steps) == WAITS[0]
    with pytest.raises(StopIteration) as end:
        steps.send(SECOND)
    assert end.value.value == "head 2"


DRIVERS: dict[str, Callable[[Stream[str], ScriptedNotifier], Any]] = {
    "iterate": lambda stream, notifier: list(iterate(stream, notifier)),
    "map_stream": lambda stream, notifier: list(iterate(map_stream(stream, str.upper), notifier)),
    "with_deadline": lambda stream, notifier: list(iterate(with_deadline(stream, 60.0), notifier)),
    "next_item": lambda stream, notifier: [run_blocking(next_item(stream), notifier) for _ in range(2)],
}


@pytest.mark.parametrize("driver", DRIVERS)
def test_driver_propagates_error_of_stream(driver: str) -> None:
    with pytest.raises(ConnectionError, match="the store is gone"):
        DRIVERS[driver](failing_stream(), ScriptedNotifier(SECOND))
