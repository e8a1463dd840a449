"""Health check: can the logs be read?

Threads: any thread may call `HealthCheck.heads`. `_heads` has no lock: at worst two threads read the logs.
"""

import time
from collections.abc import Callable

from chalicelib.domain.events.head import Head
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log

MAX_LOGS = 100
CACHE_S = 5.0
"""On AWS. The health check needs no token, and a read of all heads costs up to 100 units."""


class HealthCheck:
    """Reads the heads of the logs, and caches them for `cache_s` seconds. Failures are not cached."""

    def __init__(
        self,
        log: Log,
        organizations: Organizations,
        cache_s: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._organizations = organizations
        self._cache_s = cache_s
        self._monotonic = monotonic
        self._heads: tuple[float, list[Head]] = (0.0, [])
        """When the cached heads become invalid, and the heads."""

    def heads(self) -> list[Head]:
        """Current heads of the logs. They contain no names, because the health check needs no token."""
        valid_until, heads = self._heads
        if heads and self._monotonic() < valid_until:
            return heads
        heads = [self._log.head(organization.server) for organization in self._organizations.all()[:MAX_LOGS]]
        self._heads = self._monotonic() + self._cache_s, heads
        return heads
