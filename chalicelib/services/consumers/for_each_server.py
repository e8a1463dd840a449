"""Run the same work for several servers, so that the failure of one does not hold up the others."""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from chalicelib.domain.errors import AnnalsError

T = TypeVar("T", bound=Hashable)

_log = logging.getLogger("annals")


def log_failures(failures: Mapping[T, Exception]) -> None:
    """Log each failure with its traceback."""
    for server, failure in failures.items():
        _log.error("the work for server %s failed", server, exc_info=failure)


def raise_all(failures: Mapping[T, Exception]) -> None:
    """Log each failure and raise them as one `ExceptionGroup`."""
    log_failures(failures)
    raise ExceptionGroup(f"the work failed for servers {list(failures)}", list(failures.values()))


def raise_first(failures: Mapping[T, Exception]) -> None:
    """Raise the first failure, but an unexpected error before an `AnnalsError`, which the caller may handle."""
    raise min(failures.values(), key=lambda failure: isinstance(failure, AnnalsError))


def for_each_server(
    servers: Iterable[T],
    work: Callable[[T], object],
    on_error: Callable[[Mapping[T, Exception]], None] = log_failures,
) -> dict[T, Exception]:
    """Call `work` for each server, then `on_error` with the failures, if there are any. Returns the failures."""
    failures: dict[T, Exception] = {}
    for server in servers:
        try:
            work(server)
        except Exception as failure:  # Any error: the other servers must get their turn.
            failures[server] = failure
    if failures:
        on_error(failures)
    return failures
