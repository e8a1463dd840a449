"""Responses of the routes of observers."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.notifications.delivery import Channel
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
    since: EventId
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
