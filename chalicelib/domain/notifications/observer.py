"""Observers: rules that send messages about events to people.

Each organization has a second log for their configuration. So a configuration change is as durable as any event, and
every earlier configuration can be read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from chalicelib.domain import timestamps
from chalicelib.domain.calm.rule import CalmFields, CalmRule, Snooze
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import RESERVED_CHARACTERS, EventType, matches
from chalicelib.domain.json_schema import pattern_of
from chalicelib.domain.notifications.delivery import Channel
from chalicelib.domain.notifications.observer_schema import CONFIGURATION_SCHEMA
from chalicelib.domain.notifications.secret_fields import apprise_urls, masked, url_scheme
from chalicelib.domain.queries.event_filter import Patterns
from chalicelib.domain.vocabularies.job.events import EVENT_NAMES, JOB_EVENTS

MAX_USER_LENGTH = 200
MAX_SNOOZES = 20
"""Snoozes of an observer that are remembered, so that a replay of their time decides the same."""

ALL_TYPES: tuple[EventType, ...] = (("*",),)

NOTIFICATION_FAILED: EventType = ("notification", "failed")
"""Start of the types of events about deliveries that failed. The channel and the name of the observer follow."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
NAME_PATTERN = pattern_of(_NAME)

Text = Annotated[str, StringConstraints(max_length=2_000)]


class Configuration(CalmFields):
    """The configuration of an observer. `events` and `nodes` are comma-separated lists or `all`, as in AnyJob."""

    model_config = ConfigDict(json_schema_extra=CONFIGURATION_SCHEMA)

    scope: Literal["global", "private"] = "global"
    channel: Channel
    types: Patterns | None = None
    events: Text | None = None
    nodes: Text | None = None
    filter: Text | None = None
    config: Annotated[dict[str, Any], Field(default_factory=dict)]
    user: Annotated[str, StringConstraints(min_length=1, max_length=MAX_USER_LENGTH)] | None = None

    @model_validator(mode="after")
    def _validate_fields(self) -> Self:
        if self.types is not None and (self.events is not None or self.nodes is not None):
            raise ValueError("give either types, or events and nodes")
        if self.scope == "global" and self.user is not None:
            raise ValueError("only a private observer has a user")
        if unknown := [name for name in _split_list(self.events) if name not in (*EVENT_NAMES, "all")]:
            raise ValueError(f"unknown event '{unknown[0][:80]}'; use all, {', '.join(EVENT_NAMES)}")
        return self

    def check_nodes(self) -> None:
        """Raise `ValueError` if a node has no valid name. Not checked on load, because 0.1.0 stored such names."""
        for node in _split_list(self.nodes):
            if not RESERVED_CHARACTERS.isdisjoint(node):
                raise ValueError(
                    f"nodes: 'all' or names separated by commas, not '{node[:80]}'; a name is without '?', '*' or '/'"
                )

    @property
    def patterns(self) -> tuple[EventType, ...]:
        """The event types to observe."""
        if self.types is not None:
            return self.types
        if self.events is None and self.nodes is None:
            return ALL_TYPES
        names, nodes = _split_list(self.events), _split_list(self.nodes)
        if not nodes or "all" in nodes:
            nodes = ("?",)
        if not names or "all" in names:
            return tuple(pattern for node in nodes for pattern in (("job", "?", node, "*"), ("jobset", "?", node)))
        return tuple(_pattern(name, node) for name in names for node in nodes)


@dataclass(frozen=True, slots=True)
class Observer:
    """A named configuration, and the position in the log where it takes effect."""

    name: str
    configuration: Configuration
    since: int
    """EventId of the last event that it ignores."""
    snoozes: tuple[Snooze, ...] = ()

    def is_calm_at(self, event_id: int) -> bool:
        """Whether its messages are limited at this time."""
        return self.configuration.is_calm or any(start <= event_id < end for start, end in self.snoozes)

    @property
    def calm_rule(self) -> CalmRule:
        zone = str(self.configuration.config.get("time_zone") or "UTC")
        return CalmRule.of(self.configuration, zone, self.snoozes)

    def snooze(self, start_us: int, until_us: int) -> "Observer":
        """The observer with a snooze in place of the current one. It ends at once if `until_us` has passed."""
        ended = tuple((start, min(end, start_us)) for start, end in self.snoozes)
        snoozes = (*ended, (start_us, until_us)) if until_us > start_us else ended
        return replace(self, snoozes=snoozes[-MAX_SNOOZES:])

    @property
    def is_private(self) -> bool:
        """Whether it observes only events that are addressed to it or to its user."""
        return self.configuration.scope == "private"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The recipients. Without a list, a user's app observer sends to that user.

        Each URL of an Apprise observer is a recipient, named by its service and position, because it is a secret.
        """
        configuration = self.configuration
        if configuration.channel == "apprise":
            urls = apprise_urls(configuration.config.get("urls"))
            return tuple(f"{url_scheme(url)} {number}" for number, url in enumerate(urls, start=1)) or ("",)
        if configuration.channel in ("webhook", "eventbridge"):
            return ("",)
        listed = tuple(dict.fromkeys(_split_list(str(configuration.config.get("to") or ""))))
        if listed:
            return listed
        return (configuration.user,) if configuration.user is not None and configuration.channel == "app" else ("",)

    def matches_type(self, event_type: EventType) -> bool:
        """Whether it observes events of this type. It is never notified that it could not notify."""
        if event_type[:2] == NOTIFICATION_FAILED and event_type[-1] == self.name:
            return False
        return any(matches(event_type, pattern) for pattern in self.configuration.patterns)

    def is_addressed_by(self, props: dict[str, Any]) -> bool:
        """Whether the observer is global, or the event properties `props` name it or its user."""
        user = self.configuration.user
        names_user = user is not None and props.get("author") == user
        return not self.is_private or props.get("observer") == self.name or names_user

    @property
    def json(self) -> dict[str, Any]:
        """The observer as clients receive it, without its secrets."""
        configuration = self.configuration.model_dump(exclude_none=True)
        configuration["config"] = masked(self.configuration.channel, configuration["config"])
        return {"name": self.name, **configuration, "since": self.since}


def check_name(name: str) -> str:
    """Return `name`. Raises `BadInput` if it is not valid."""
    if _NAME.fullmatch(name) is None:
        raise BadInput(
            "an observer's name has 1 to 100 letters, digits, '.', '-' and '_', and begins with a letter or digit"
        )
    return name


def put_event(name: str, configuration: Configuration, since: int) -> NewEvent:
    """The event that configures an observer."""
    data = {"configuration": configuration.model_dump(exclude_none=True), "since": since}
    return NewEvent(type=("observer", "put"), key=observer_key(name), payload=JsonPayload(type="json", data=data))


def deletion_event(name: str) -> NewEvent:
    """The event that deletes an observer."""
    return NewEvent(type=("observer", "deleted"), key=observer_key(name))


def snooze_event(name: str, until_us: int) -> NewEvent:
    """The event that snoozes an observer."""
    data = {"until": timestamps.iso(until_us)}
    return NewEvent(type=("observer", "snoozed"), key=observer_key(name), payload=JsonPayload(type="json", data=data))


def job_settings_event(jobs: dict[str, dict[str, Any]]) -> NewEvent:
    """The event that sets the job settings, by job type."""
    return NewEvent(type=("jobs", "put"), payload=JsonPayload(type="json", data=jobs))


@dataclass(frozen=True, slots=True)
class ConfigurationState:
    """The state of an organization's configuration log."""

    observers: Mapping[str, Observer]
    jobs: Mapping[str, dict[str, Any]]

    def fold(self, event: Event) -> "ConfigurationState":
        """The state after `event`."""
        fields = event.fields
        name = (fields.key or "").removeprefix("/observer/")
        match fields.type:
            case ("observer", "put"):
                data = fields.payload["data"]
                snoozes = self.observers[name].snoozes if name in self.observers else ()
                observer = Observer(name, Configuration(**data["configuration"]), data["since"], snoozes)
                return ConfigurationState({**self.observers, name: observer}, self.jobs)
            case ("observer", "snoozed") if name in self.observers:
                until_us = timestamps.parse(fields.payload["data"]["until"])
                snoozed = self.observers[name].snooze(event.event_id, until_us)
                return ConfigurationState({**self.observers, name: snoozed}, self.jobs)
            case ("observer", "deleted"):
                observers = {other: observer for other, observer in self.observers.items() if other != name}
                return ConfigurationState(observers, self.jobs)
            case ("jobs", "put"):
                return ConfigurationState(self.observers, fields.payload["data"])
            case _:
                return self


def observer_key(name: str) -> str:
    """The key of events about an observer."""
    return f"/observer/{name}"


def _split_list(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _pattern(name: str, node: str) -> EventType:
    return ("job", name, node, "*") if name in JOB_EVENTS else ("jobset", name, node)
