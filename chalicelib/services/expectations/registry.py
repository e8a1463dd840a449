"""The registry of expectations. Their configuration is stored in the configuration log of the organization."""

import secrets
from collections.abc import Mapping

from chalicelib.domain.errors import BadInput, NotFound
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.expectations.expectation import (
    Configured,
    Expectation,
    ExpectationsState,
    deletion_event,
    put_event,
)
from chalicelib.domain.log.append import Append, AppendCondition, encode_within_limits
from chalicelib.domain.log.commit import verify_contiguous
from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.log.appender import Appender
from chalicelib.services.ports import Log

MAX_EXPECTATIONS = 1_000
"""Limit of an organization. The projector matches each event of a job with all of them."""


class ExpectationRegistry:
    """Reads and changes the expectations of all organizations. Threads may share it."""

    def __init__(self, log: Log, appender: Appender) -> None:
        self._log = log
        self._appender = appender
        # Head and state form one value, because threads share the cache: the state must belong to its head.
        self._cache: dict[int, tuple[Head, ExpectationsState]] = {}

    def load(self, server: int) -> Mapping[str, Configured]:
        """The current expectations by name. Reads only the events that are not in the cache."""
        log = configuration_log(server)
        head, configured = self._cache.get(log, (Head(log), ExpectationsState()))
        for commit in verify_contiguous(head, self._log.read(log, head.session)):
            for event in commit.events:
                configured = configured.fold(event)
            self._cache[log] = commit.head, configured
        return configured.expectations

    def get(self, server: int, name: str) -> Configured:
        """Raises `NotFound` for an unknown name."""
        configured = self.load(server).get(name)
        if configured is None:
            raise NotFound(f"there is no expectation '{name[:100]}'")
        return configured

    def put(self, server: int, name: str, expectation: Expectation) -> tuple[Configured, bool]:
        """Create or change an expectation, from now on. Returns whether it is new."""
        loaded = self.load(server)
        before = loaded.get(name)
        if before is None and len(loaded) >= MAX_EXPECTATIONS:
            raise BadInput(f"an organization has at most {MAX_EXPECTATIONS} expectations; delete one first")
        if before is None or before.expectation != expectation:
            self._write(server, put_event(name, expectation, self._log.head(server).last_event_id))
        return self.get(server, name), before is None

    def delete(self, server: int, name: str) -> None:
        """Raises `NotFound` for an unknown name."""
        self.get(server, name)
        self._write(server, deletion_event(name))

    def _write(self, server: int, event: NewEvent) -> None:
        log = configuration_log(server)
        # Fail if another writer changed this expectation after our last read.
        last = self._cache[log][0].last_event_id if log in self._cache else 0
        keys = () if event.key is None else (event.key,)
        condition = AppendCondition(fail_if_events_match=Selection(keys=keys), after=last)
        self._appender.append(Append(log, encode_within_limits([event]), secrets.token_urlsafe(9), condition))
