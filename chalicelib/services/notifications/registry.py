"""The registry of observers. Their configuration is stored as events in a separate log per organization."""

import secrets
from typing import Any

from chalicelib.domain.errors import BadInput, NotFound
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, AppendCondition, encode_within_limits
from chalicelib.domain.log.commit import verify_contiguous
from chalicelib.domain.notifications.observer import (
    Configuration,
    ConfigurationState,
    Observer,
    deletion_event,
    job_settings_event,
    put_event,
    snooze_event,
)
from chalicelib.domain.notifications.secret_fields import with_stored_secrets
from chalicelib.domain.notifications.webhook_signature import format_secret
from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.log.appender import Appender
from chalicelib.services.ports import Log

SECRET_BYTES = 32


def with_new_secret(configuration: Configuration) -> Configuration:
    """The configuration with a random secret if it needs one and has none."""
    if configuration.channel != "webhook" or configuration.config.get("secret"):
        return configuration
    secret = format_secret(secrets.token_bytes(SECRET_BYTES))
    return configuration.model_copy(update={"config": {**configuration.config, "secret": secret}})


class ObserverRegistry:
    """Reads and changes the observers of all organizations. Threads may share it."""

    def __init__(self, log: Log, appender: Appender) -> None:
        self._log = log
        self._appender = appender
        # Head and state form one value, because threads share the cache: the state must belong to its head.
        self._cache: dict[int, tuple[Head, ConfigurationState]] = {}

    def load(self, server: int) -> ConfigurationState:
        """The current configuration. Reads only the events that are not in the cache."""
        log = configuration_log(server)
        head, configured = self._cache.get(log, (Head(log), ConfigurationState({}, {})))
        for commit in verify_contiguous(head, self._log.read(log, head.session)):
            for event in commit.events:
                configured = configured.fold(event)
            self._cache[log] = commit.head, configured
        return configured

    def get(self, server: int, name: str) -> Observer:
        """Raises `NotFound` if there is no such observer."""
        observer = self.load(server).observers.get(name)
        if observer is None:
            raise NotFound(f"there is no observer '{name[:100]}'")
        return observer

    def put(self, server: int, name: str, configuration: Configuration) -> tuple[Observer, bool]:
        """Create or change an observer. Returns whether it is new. A new observer sees only later events."""
        before = self.load(server).observers.get(name)
        since = self._log.head(server).last_event_id if before is None else before.since
        if before is None or before.configuration != configuration:
            self._write(server, put_event(name, configuration, since))
        return self.get(server, name), before is None

    def with_stored_secrets(self, server: int, name: str, configuration: Configuration) -> Configuration:
        """The configuration with the stored secrets where it has none. Raises `BadInput` for an unknown mask."""
        stored = self.load(server).observers.get(name)
        has_same_channel = stored is not None and stored.configuration.channel == configuration.channel
        kept = stored.configuration.config if stored is not None and has_same_channel else {}
        try:
            config = with_stored_secrets(configuration.channel, configuration.config, kept)
        except ValueError as error:
            raise BadInput(str(error)) from error
        return configuration.model_copy(update={"config": config})

    def snooze(self, server: int, name: str, until_us: int) -> Observer:
        """Hold all messages of an observer until a time. A time in the past ends its snooze.

        Raises `NotFound` if there is no such observer.
        """
        self.get(server, name)
        self._write(server, snooze_event(name, until_us))
        return self.get(server, name)

    def delete(self, server: int, name: str) -> None:
        """Raises `NotFound` if there is no such observer."""
        self.get(server, name)
        self._write(server, deletion_event(name))

    def configure_jobs(self, server: int, jobs: dict[str, dict[str, Any]]) -> None:
        """Replace the job settings, which are keyed by job type."""
        if self.load(server).jobs != jobs:
            self._write(server, job_settings_event(jobs))

    def _write(self, server: int, event: NewEvent) -> None:
        log = configuration_log(server)
        condition = None
        if event.key is not None:
            # Fail if another writer changed this observer after our last read.
            last = self._cache[log][0].last_event_id if log in self._cache else 0
            condition = AppendCondition(fail_if_events_match=Selection(keys=(event.key,)), after=last)
        self._appender.append(Append(log, encode_within_limits([event]), secrets.token_urlsafe(9), condition))
