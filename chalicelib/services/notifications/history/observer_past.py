"""The past of observers, from the log with their configurations."""

from dataclasses import dataclass, replace
from typing import Self

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import verify_contiguous
from chalicelib.domain.notifications.delivery import Channel
from chalicelib.domain.notifications.observer import ConfigurationState
from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.services.ports import Log


@dataclass(frozen=True, slots=True)
class ObserverPast:
    """The channels of an observer, and when it was created."""

    created: int = 0
    """EventId of the configuration with which the present observer began."""
    has_predecessor: bool = False
    """Whether another observer had its name before, perhaps one of another user."""
    is_deleted: bool = False
    channels: tuple[tuple[int, Channel], ...] = ()
    """Each channel with the EventId of the first configuration that has it."""

    def channel_at(self, at_ms: int | None) -> Channel | None:
        """The channel at a time, or the present one. None: there was no observer of this name."""
        known = [channel for event_id, channel in self.channels if at_ms is None or event_id < (at_ms + 1) * 1000]
        return known[-1] if known else None

    def put(self, event_id: int, channel: Channel) -> Self:
        """The past after the observer was created or changed."""
        changed = self
        if self.is_deleted or not self.channels:
            changed = replace(self, created=event_id, has_predecessor=self.is_deleted, is_deleted=False)
        if not self.channels or self.channels[-1][1] != channel:
            changed = replace(changed, channels=(*self.channels, (event_id, channel)))
        return changed


class ObserverPasts:
    """Reads the past of the observers of all organizations. Threads may share it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        # Head and pasts form one value, because threads share the cache: the pasts must belong to their head.
        self._cache: dict[int, tuple[Head, dict[str, ObserverPast]]] = {}

    def load(self, server: int) -> dict[str, ObserverPast]:
        """By name, including deleted observers. Reads only the events that are not in the cache."""
        log = configuration_log(server)
        head, pasts = self._cache.get(log, (Head(log), dict[str, ObserverPast]()))
        for commit in verify_contiguous(head, self._log.read(log, head.session)):
            for event in commit.events:
                pasts = _fold(pasts, event)
            self._cache[log] = commit.head, pasts
        return pasts


def _fold(pasts: dict[str, ObserverPast], event: Event) -> dict[str, ObserverPast]:
    name = (event.fields.key or "").removeprefix("/observer/")
    match event.fields.type:
        case ("observer", "put"):
            channel = ConfigurationState({}, {}).fold(event).observers[name].configuration.channel
            return {**pasts, name: pasts.get(name, ObserverPast()).put(event.event_id, channel)}
        case ("observer", "deleted") if name in pasts:
            return {**pasts, name: replace(pasts[name], is_deleted=True)}
        case _:
            return pasts
