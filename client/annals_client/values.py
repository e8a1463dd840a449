"""What goes in and what comes out.

What programs compute with is a frozen dataclass; what the server merely tells is a TypedDict, named as on the wire.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NotRequired, TypedDict


@dataclass(frozen=True, slots=True)
class Id:
    """Which event: the log, the commit in it, the place in the commit."""

    server: int
    session: int
    instance: int

    def __str__(self) -> str:
        return f"{self.server}.{self.session}.{self.instance}"


@dataclass(frozen=True, slots=True)
class Json:
    """A payload of JSON; `Json(None)` is not "no payload"."""

    data: Any


@dataclass(frozen=True, slots=True)
class Binary:
    """A payload of bytes; `name` says of what kind."""

    name: str
    data: bytes


Payload = Json | Binary


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to publish; its type may be written `job/finish` or as its subtypes."""

    type: str | Sequence[str]
    key: str | None = None
    payload: Payload | None = None
    source_timestamp: datetime | None = None
    """When it happened; the time needs a zone."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the log; `event_id` is its position."""

    id: Id
    event_id: int
    timestamp: datetime
    type: tuple[str, ...]
    key: str | None
    source_timestamp: datetime | None
    payload: Payload | None

    @property
    def path(self) -> str:
        """Its type, written with slashes."""
        return "/".join(self.type)


@dataclass(frozen=True, slots=True)
class Condition:
    """Refuse to publish if an event after `after` has one of the types and one of the keys; None is any."""

    types: Sequence[str] | None = None
    keys: Sequence[str] | None = None
    after: int = 0


@dataclass(frozen=True, slots=True)
class Ignored:
    """An event that was not written, by its place in the request, and why."""

    place: int
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    """The events as the log numbered them; `event_id` is the last one's."""

    events: tuple[Event, ...]
    event_id: int
    ignored: tuple[Ignored, ...] = ()
    is_repeated: bool = False
    """Whether an earlier request with this key had written them; its answer was lost."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest events, oldest first, and the position from which to follow what comes after them."""

    events: tuple[Event, ...]
    event_id: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Objects exactly as they were at `event_id`: follow after it, and nothing is missed or seen twice."""

    event_id: int
    objects: tuple[Mapping[str, Any], ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    """Of a list in brief: how many there are in each state."""
    more_follows: bool = False


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far a replay has come: all up to `event_id` of what goes until `until`."""

    replay: str
    event_id: int
    until: int
    deliveries: int
    """How many messages were put in the outbox so far."""
    is_done: bool


class Deliveries(TypedDict):
    """What becomes of an observer's deliveries; minus 1 if that is not known."""

    waiting: int
    parked: int
    sent: int
    dropped: int


class Observer(TypedDict):
    """An observer as it is configured; it is told about events after `since`."""

    name: str
    scope: str
    channel: str
    types: NotRequired[list[list[str]]]
    events: NotRequired[str]
    nodes: NotRequired[str]
    filter: NotRequired[str]
    config: dict[str, Any]
    user: NotRequired[str]
    since: int
    deliveries: Deliveries


class Failure(TypedDict):
    """A delivery that nobody tries any more, and why."""

    id: str
    event: dict[str, int]
    key: str
    address: str
    replay: str | None
    tries: int
    error: str
    at: str


class Report(TypedDict):
    """A report that has become ready."""

    name: str
    at: str
    eventId: int
    link: str | None


class Rights(TypedDict):
    """What the caller may do."""

    read: bool
    publish: bool
    administer: bool


class Me(TypedDict):
    """Who the caller is, until when, and what they may do."""

    user: str
    organizations: list[str]
    groups: list[str]
    may: Rights
    expires: str


class Head(TypedDict):
    """Where a log ends, and since when."""

    id: dict[str, int]
    eventId: int
    timestamp: str | None


class Consumer(TypedDict):
    """How far a consumer has come; `behind` counts commits."""

    name: str
    eventId: int
    behind: int
    lagSeconds: float


class System(TypedDict):
    """Where the organization's log stands, how far its consumers are, how the installation is set up."""

    version: str
    mode: str
    organization: str
    head: Head
    events: int | None
    firstKept: int | None
    consumers: list[Consumer]
    organizations: list[str]
    retention: str | None
    settings: dict[str, Any]
