"""Parameters and results of the client.

Values that programs compute with are frozen dataclasses. Informational documents are TypedDicts with the field names of
the API.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NotRequired, TypedDict


@dataclass(frozen=True, slots=True)
class Id:
    """Id of an event: the log, the commit in the log, the index in the commit."""

    server: int
    session: int
    instance: int

    def __str__(self) -> str:
        return f"{self.server}.{self.session}.{self.instance}"


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON payload. `Json(None)` is the JSON value null, not a missing payload."""

    data: Any


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary payload. `name` describes its format."""

    name: str
    data: bytes


Payload = Json | Binary


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to publish. The type is `job/finish` or a sequence of subtypes."""

    type: str | Sequence[str]
    key: str | None = None
    payload: Payload | None = None
    source_timestamp: datetime | None = None
    """When the event happened. Needs a time zone."""
    tags: Sequence[str] = ()
    """What the event concerns, such as `show:1`. Filters and conditions can select events by their tags."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the log. Follow after its `event_id` to continue."""

    id: Id
    event_id: int
    timestamp: datetime
    type: tuple[str, ...]
    key: str | None
    source_timestamp: datetime | None
    payload: Payload | None
    position: int | None = None
    """Counts the events of the log without gaps, from 1. None: unknown, because the server or the event is too old."""
    tags: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The type, joined with slashes."""
        return "/".join(self.type)


@dataclass(frozen=True, slots=True)
class Item:
    """Events that have one of the types, one of the keys and all of the tags. None matches any."""

    types: Sequence[str] | None = None
    keys: Sequence[str] | None = None
    tags: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Reject the publication if an event after `after` has one of the types, one of the keys and all of the tags.

    None matches any. With `items`, an event is rejected if it matches at least one of them.
    """

    types: Sequence[str] | None = None
    keys: Sequence[str] | None = None
    after: int = 0
    tags: Sequence[str] | None = None
    items: Sequence[Item] | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """An event that was not written: its index in the request, and the reason."""

    place: int
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    """The events with their ids. `event_id` is that of the last event."""

    events: tuple[Event, ...]
    event_id: int
    ignored: tuple[Ignored, ...] = ()
    is_repeated: bool = False
    """Whether an earlier request with the same key wrote the events."""
    position: int | None = None
    """The position of the last event."""
    ids: tuple[int, ...] = ()
    """With the vocabulary `job`: the ids of the jobs that were created without an id, in order."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest events, oldest first. Follow after `event_id` to continue."""

    events: tuple[Event, ...]
    event_id: int
    more_follows: bool = False
    """Whether there may be earlier events. Read them with `before`, the `event_id` of the first event."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Objects as of `event_id`. Following after it misses and repeats nothing."""

    event_id: int
    objects: tuple[Mapping[str, Any], ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    """For brief lists: number of objects in each state. Empty if the server did not count them."""
    more_follows: bool = False


@dataclass(frozen=True, slots=True)
class Replayed:
    """Progress of a replay: events up to `event_id` are done, `until` is the end."""

    replay: str
    event_id: int
    until: int
    deliveries: int
    """Messages put in the outbox so far."""
    is_done: bool


class Deliveries(TypedDict):
    """Number of deliveries of an observer in each state. -1: unknown."""

    waiting: int
    parked: int
    sent: int
    dropped: int


class Observer(TypedDict):
    """The configuration of an observer. It is notified of events after `since`."""

    name: str
    scope: str
    channel: str
    types: NotRequired[list[list[str]]]
    events: NotRequired[str]
    nodes: NotRequired[str]
    filter: NotRequired[str]
    config: dict[str, Any]
    user: NotRequired[str]
    when: NotRequired[str]
    group_by: NotRequired[list[str]]
    digest: NotRequired[str]
    throttle: NotRequired[str]
    quiet: NotRequired[str]
    time_zone: NotRequired[str]
    since: int
    snoozedUntil: NotRequired[str]
    deliveries: Deliveries


class Mute(TypedDict):
    """A silence, or an acknowledgement. Events of the job type or of the pattern notify no observer."""

    id: int
    type: NotRequired[str]
    pattern: NotRequired[list[str]]
    since: str
    until: NotRequired[str]
    comment: str
    by: NotRequired[str]


class OpenAlarm(TypedDict):
    """The alarms of one kind since an expectation recovered last."""

    kind: str
    count: int
    since: str
    last: str


class Expectation(TypedDict):
    """An expectation and its status. Durations are in ISO-8601, times in UTC."""

    name: str
    type: NotRequired[str]
    node: NotRequired[str]
    key: NotRequired[str]
    every: NotRequired[str]
    cron: NotRequired[str]
    time_zone: NotRequired[str]
    grace: NotRequired[str]
    max_duration: NotRequired[str]
    max_silence: NotRequired[str]
    min_interval: NotRequired[str]
    paused: bool
    description: NotRequired[str]
    since: int
    state: str
    stateSince: str
    nextExpectedAt: str | None
    lastStartAt: str | None
    openAlarms: list[OpenAlarm]


class Failure(TypedDict):
    """A delivery that is not retried any more, with the error."""

    id: str
    event: dict[str, int]
    key: str
    address: str
    replay: str | None
    tries: int
    error: str
    at: str


class DeliveryEntry(TypedDict):
    """A delivery and its result. `state` is waiting, sent, dropped or parked."""

    id: str
    observer: str
    channel: str | None
    event: dict[str, int]
    eventId: int | None
    """None, as `type` and `key`, after the event has expired."""
    type: list[str] | None
    key: str | None
    address: str
    replay: str | None
    state: str
    tries: int
    error: str | None
    """The last error, or why it was dropped."""
    at: str | None
    """When it was sent, dropped or parked. While it waits: when it was queued, or last tried."""


class InboxMessage(TypedDict):
    """A message in an inbox, and the id of the event that caused it."""

    eventId: int
    read: bool
    observer: str
    subject: str
    body: str
    event: dict[str, int]


class InboxStatus(TypedDict):
    """The number of messages after `readUpTo`. If `moreFollows`, there are more."""

    readUpTo: int
    unread: int
    moreFollows: bool


class Report(TypedDict):
    """A finished report."""

    name: str
    at: str
    eventId: int
    link: str | None


class Rights(TypedDict):
    """The permissions of the caller."""

    read: bool
    publish: bool
    administer: bool


class Me(TypedDict):
    """Identity, permissions and token expiry of the caller."""

    user: str
    organizations: list[str]
    groups: list[str]
    may: Rights
    expires: str


class Head(TypedDict):
    """The last event of a log."""

    id: dict[str, int]
    eventId: int
    timestamp: str | None


class Consumer(TypedDict):
    """Progress of a consumer. `behind` counts commits."""

    name: str
    eventId: int
    behind: int
    lagSeconds: float


class System(TypedDict):
    """Status of the organization's log, its consumers and the installation."""

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
