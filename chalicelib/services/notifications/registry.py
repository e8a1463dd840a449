"""Observers: configured, listed, and how far that is known."""

import secrets
from typing import Any

from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, AppendCondition, encoded
from chalicelib.domain.log.commit import chained
from chalicelib.domain.notifications.observer import Configuration, Configured, Observer, deleted, jobs_configured, put
from chalicelib.domain.organizations.organization import configuration_of
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.log.appender import Appender
from chalicelib.services.ports import Log


class Observers:
    """The observers of all organizations, read from their logs; what was read is remembered."""

    def __init__(self, log: Log, appender: Appender) -> None:
        self._log = log
        self._appender = appender
        # One value, for threads share it: what was read, and how far, must not come apart.
        self._known: dict[int, tuple[Head, Configured]] = {}

    def of(self, server: int) -> Configured:
        """All that is configured for the log of `server`, as it is now."""
        log = configuration_of(server)
        read_to, configured = self._known.get(log, (Head(log), Configured({}, {})))
        for commit in chained(read_to, self._log.read(log, read_to.session)):
            for event in commit.events:
                configured = configured.folded(event)
            self._known[log] = commit.head, configured
        return configured

    def channel(self, server: int, name: str) -> str:
        """The channel of an observer as far as it is known without reading; empty if it is not."""
        _, configured = self._known.get(configuration_of(server), (None, Configured({}, {})))
        observer = configured.observers.get(name)
        return observer.configuration.channel if observer else ""

    def one(self, server: int, name: str) -> Observer:
        """The observer called `name`."""
        found = self.of(server).observers.get(name)
        if found is None:
            raise NotFound(f"there is no observer '{name[:100]}'")
        return found

    def put(self, server: int, name: str, configuration: Configuration) -> tuple[Observer, bool]:
        """Configure an observer; whether it is new. A new one is told about what comes from now on."""
        before = self.of(server).observers.get(name)
        since = self._log.head(server).last if before is None else before.since
        if before is None or before.configuration != configuration:
            self._write(server, put(name, configuration, since))
        return self.one(server, name), before is None

    def delete(self, server: int, name: str) -> None:
        """End an observer."""
        self.one(server, name)
        self._write(server, deleted(name))

    def configure_jobs(self, server: int, jobs: dict[str, dict[str, Any]]) -> None:
        """Say how jobs are configured, by their type."""
        if self.of(server).jobs != jobs:
            self._write(server, jobs_configured(jobs))

    def _write(self, server: int, event: NewEvent) -> None:
        log = configuration_of(server)
        condition = None
        if event.key is not None:
            # Nobody overwrites what they have not seen.
            last = self._known[log][0].last if log in self._known else 0
            condition = AppendCondition(fail_if_events_match=Selection(keys=(event.key,)), after=last)
        self._appender.append(Append(log, encoded([event]), secrets.token_urlsafe(9), condition))
