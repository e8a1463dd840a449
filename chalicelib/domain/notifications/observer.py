"""Observers: who is told about which events, by which channel.

They are configured by events in a log of their own, one for each organization, so that a change is as safe as an
event, and every earlier configuration can be found again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import EventType, matches
from chalicelib.domain.model import Model
from chalicelib.domain.notifications.delivery import Channel
from chalicelib.domain.queries.event_filter import Patterns
from chalicelib.domain.vocabularies.job.events import EVENTS, OF_JOB

LONGEST_USER = 200

EVERYTHING: tuple[EventType, ...] = (("*",),)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)

Text = Annotated[str, StringConstraints(max_length=2_000)]


class Configuration(Model):
    """An observer as it is written by people: `events` and `nodes` are AnyJob's lists, separated by commas."""

    scope: Literal["global", "private"] = "global"
    channel: Channel
    types: Patterns | None = None
    events: Text | None = None
    nodes: Text | None = None
    filter: Text | None = None
    config: Annotated[dict[str, Any], Field(default_factory=dict)]
    user: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_USER)] | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.types is not None and (self.events is not None or self.nodes is not None):
            raise ValueError("give either types, or events and nodes")
        if self.scope == "global" and self.user is not None:
            raise ValueError("only a private observer has a user")
        if unknown := [name for name in _listed(self.events) if name not in (*EVENTS, "all")]:
            raise ValueError(f"there is no event '{unknown[0][:80]}', only all, {', '.join(EVENTS)}")
        return self

    @property
    def patterns(self) -> tuple[EventType, ...]:
        """The types of events that it is about."""
        if self.types is not None:
            return self.types
        if self.events is None and self.nodes is None:
            return EVERYTHING
        names, nodes = _listed(self.events), _listed(self.nodes) or ("?",)
        if not names or "all" in names:
            return tuple(pattern for node in nodes for pattern in (("job", "?", node, "*"), ("jobset", "?", node)))
        return tuple(_pattern(name, node) for name in names for node in nodes)


@dataclass(frozen=True, slots=True)
class Observer:
    """An observer, and the position in the log from which it observes."""

    name: str
    configuration: Configuration
    since: int
    """It is told about events after this one."""

    @property
    def is_private(self) -> bool:
        """Whether it is told only about what is dedicated to it or its user."""
        return self.configuration.scope == "private"

    @property
    def addresses(self) -> tuple[str, ...]:
        """To whom it tells; a user's own observer tells that user."""
        own = self.configuration
        listed = tuple(dict.fromkeys(_listed(str(own.config.get("to") or ""))))
        return listed or ((own.user,) if own.user is not None and own.channel == "app" else ("",))

    def is_about(self, event_type: EventType) -> bool:
        """Tell whether events of this type may concern it."""
        return any(matches(event_type, pattern) for pattern in self.configuration.patterns)

    def is_meant(self, props: dict[str, Any]) -> bool:
        """Tell whether an event with these properties is dedicated to it, or needs not to be."""
        user = self.configuration.user
        is_theirs = user is not None and props.get("author") == user
        return not self.is_private or props.get("observer") == self.name or is_theirs

    @property
    def json(self) -> dict[str, Any]:
        """As it is shown."""
        return {"name": self.name, **self.configuration.model_dump(exclude_none=True), "since": self.since}


def name_checked(name: str) -> str:
    """`name` itself, if an observer may have it."""
    if _NAME.fullmatch(name) is None:
        raise BadInput("an observer's name has 1 to 100 letters, digits, '.', '-' and '_', the first no punctuation")
    return name


def put(name: str, configuration: Configuration, since: int) -> NewEvent:
    """The event that configures an observer."""
    data = {"configuration": configuration.model_dump(exclude_none=True), "since": since}
    return NewEvent(type=("observer", "put"), key=_key(name), payload=JsonPayload(type="json", data=data))


def deleted(name: str) -> NewEvent:
    """The event that ends an observer."""
    return NewEvent(type=("observer", "deleted"), key=_key(name))


def jobs_configured(jobs: dict[str, dict[str, Any]]) -> NewEvent:
    """The event that configures jobs, by their type."""
    return NewEvent(type=("jobs", "put"), payload=JsonPayload(type="json", data=jobs))


@dataclass(frozen=True, slots=True)
class Configured:
    """What the configuration's log says, folded."""

    observers: Mapping[str, Observer]
    jobs: Mapping[str, dict[str, Any]]

    def folded(self, event: Event) -> "Configured":
        """The same after one more event."""
        stored = event.stored
        name = (stored.key or "").removeprefix("/observer/")
        match stored.type:
            case ("observer", "put"):
                data = stored.payload["data"]
                observer = Observer(name, Configuration(**data["configuration"]), data["since"])
                return Configured({**self.observers, name: observer}, self.jobs)
            case ("observer", "deleted"):
                return Configured({key: one for key, one in self.observers.items() if key != name}, self.jobs)
            case ("jobs", "put"):
                return Configured(self.observers, stored.payload["data"])
            case _:
                return self


def _key(name: str) -> str:
    return f"/observer/{name}"


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _pattern(name: str, node: str) -> EventType:
    return ("job", name, node, "*") if name in OF_JOB else ("jobset", name, node)
