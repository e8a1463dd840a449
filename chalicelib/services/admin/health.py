"""Health check: can the logs be read?

Threads: any thread may call `HealthCheck.heads`. `_heads` has no lock: at worst two threads read the same log.
"""

import time
from collections.abc import Callable

from chalicelib.domain.events.head import Head
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log

CACHE_S = 5.0
"""On AWS. The health check needs no token, and the head of each log costs one read unit."""


class HealthCheck:
    """Reads the heads of the logs, and caches each for `cache_s` seconds. Failures are not cached."""

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
        self._heads: dict[int, tuple[float, Head]] = {}
        """By server: when the cached head becomes invalid, and the head."""

    def heads(self, after: int, limit: int) -> list[Head]:
        """Current heads of at most `limit` logs with server numbers greater than `after`.

        They contain no names, because the health check needs no token.
        """
        return [self._head(organization.server) for organization in self._organizations.page(after, limit)]

    def _head(self, server: int) -> Head:
        valid_until, head = self._heads.get(server, (0.0, Head(server)))
        now = self._monotonic()
        if now >= valid_until:
            head = self._log.head(server)
            if self._cache_s:
                self._heads[server] = now + self._cache_s, head
        return head
