"""Responses of the routes of observers."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.notifications.delivery import Channel
from chalicelib.domain.notifications.delivery_record import DeliveryStatus
from chalicelib.http.openapi.response_types.events import EventIdentity
from chalicelib.http.openapi.response_types.scalars import Count, Time


class DeliveryCounts(TypedDict):
    """Number of deliveries by state. `waiting` is -1 if it is unknown."""

    waiting: Annotated[int, Field(ge=-1)]
    parked: Count
    sent: Count
    dropped: Count


class Observer(TypedDict):
    """An observer. It is notified of events after `since`."""

    name: str
    scope: Literal["global", "private"]
    channel: Channel
    types: NotRequired[list[list[str]]]
    events: NotRequired[str]
    nodes: NotRequired[str]
    filter: NotRequired[str]
    config: dict[str, Any]
    user: NotRequired[str]
    when: NotRequired[str]
    group_by: NotRequired[list[Literal["type", "node", "key"]]]
    digest: NotRequired[str]
    throttle: NotRequired[str]
    quiet: NotRequired[str]
    time_zone: NotRequired[str]
    since: EventId
    snoozedUntil: NotRequired[Time]
    deliveries: DeliveryCounts


class Observers(TypedDict):
    """The observers that the caller may see. If more follow, the next page starts after the last name."""

    observers: list[Observer]
    moreFollows: bool


class Deleted(TypedDict):
    """The name of what was deleted."""

    deleted: str


class Failure(TypedDict):
    """A failed delivery that is not retried any more."""

    id: str
    event: EventIdentity
    key: str
    address: str
    replay: str | None
    tries: Count
    error: str
    at: Time


class Failures(TypedDict):
    """Failed deliveries that are not retried any more. The next page starts after the last id."""

    failures: list[Failure]


class DeliveryEntry(TypedDict):
    """A delivery and its result. `type`, `key` and `eventId` of its event are null after the event has expired."""

    id: str
    observer: str
    channel: Channel | None
    event: EventIdentity
    eventId: EventId | None
    type: list[str] | None
    key: str | None
    address: str
    replay: str | None
    state: DeliveryStatus
    tries: Count
    error: str | None
    at: Time | None


class DeliveryHistory(TypedDict):
    """Deliveries. `at` is the time when it was sent, dropped or parked. `cursor` is that of the next page."""

    deliveries: list[DeliveryEntry]
    cursor: str | None


class InboxStatus(TypedDict):
    """What a user has read: messages up to `readUpTo`. `unread` is the number of later ones, at most 100."""

    readUpTo: EventId
    unread: Count
    moreFollows: bool


class Retried(TypedDict):
    """The number of deliveries that are retried."""

    retried: Count


class Replayed(TypedDict):
    """The progress of a replay. Unless it is done, repeat the request with these values."""

    replay: str
    eventId: EventId
    until: EventId
    deliveries: Count
    done: bool
