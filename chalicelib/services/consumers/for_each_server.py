"""Rounds: the same work for several servers, of which one that fails holds up no other."""

import logging
from collections.abc import Callable, Iterable

_log = logging.getLogger("annals")


def each(servers: Iterable[int], work: Callable[[int], object]) -> dict[int, Exception]:
    """Do the work for each server; those for which it failed, and why."""
    failed: dict[int, Exception] = {}
    for server in servers:
        try:
            work(server)
        except Exception as failure:  # whatever it is, the others have a right to their turn
            _log.exception("the work for server %d failed", server)
            failed[server] = failure
    return failed


def all_of(servers: Iterable[int], work: Callable[[int], object]) -> None:
    """Do the work for each server, and raise what failed once all had their turn."""
    failed = each(servers, work)
    if failed:
        raise ExceptionGroup(f"the work failed for servers {list(failed)}", list(failed.values()))
