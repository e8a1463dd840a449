"""Do the same work for several items, so that the failure of one does not stop the others."""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from chalicelib.domain.errors import AnnalsError

T = TypeVar("T", bound=Hashable)

MIN_REMAINING_MS = 8_000
"""Time of a function that is not shared out, so that work under way when a share ends can be completed."""

_log = logging.getLogger("annals")


def log_failures(failures: Mapping[T, Exception]) -> None:
    """Log each failure with its traceback."""
    for item, failure in failures.items():
        _log.error("the work for %s failed", item, exc_info=failure)


def raise_all(failures: Mapping[T, Exception]) -> None:
    """Log each failure and raise them as one `ExceptionGroup`."""
    log_failures(failures)
    raise ExceptionGroup(f"the work failed for {list(failures)}", list(failures.values()))


def raise_first(failures: Mapping[T, Exception]) -> None:
    """Raise the first failure, but an unexpected error before an `AnnalsError`, which the caller may handle."""
    raise min(failures.values(), key=lambda failure: isinstance(failure, AnnalsError))


def for_each(
    items: Iterable[T],
    work: Callable[[T], object],
    on_error: Callable[[Mapping[T, Exception]], None] = log_failures,
) -> dict[T, Exception]:
    """Call `work` for each item, then `on_error` with the failures, if there are any. Returns the failures."""
    failures: dict[T, Exception] = {}
    for item in items:
        try:
            work(item)
        except Exception as failure:  # Any error: the other items must get their turn.
            failures[item] = failure
    if failures:
        on_error(failures)
    return failures


def for_each_in_time(
    items: Sequence[T], work: Callable[[T, Callable[[], bool]], bool], remaining_ms: Callable[[], float]
) -> set[T]:
    """Call `work` for each item, with a function that says whether its share of the remaining time is not over.

    `work` returns whether it is complete. Returns the items whose work failed or is incomplete.
    """
    waiting, incomplete = len(items), set[T]()

    def work_in_time(item: T) -> None:
        nonlocal waiting
        end_ms = remaining_ms() - (remaining_ms() - MIN_REMAINING_MS) / waiting
        waiting -= 1
        if not work(item, lambda: remaining_ms() > end_ms):
            _log.info("the time for %s is over, its work continues in the next run", item)
            incomplete.add(item)

    return incomplete | for_each(items, work_in_time).keys()
