"""Answers of the routes of observers."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.notifications.delivery import Channel
from chalicelib.http.openapi.answers.appended import Count, Time
from chalicelib.http.openapi.answers.events import EventIdentity


class DeliveryCounts(TypedDict):
    """What becomes of an observer's deliveries; minus 1 if that is not known."""

    waiting: Annotated[int, Field(ge=-1)]
    parked: Count
    sent: Count
    dropped: Count


class Observer(TypedDict):
    """An observer as it is configured; it is told about events after `since`."""

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
    """The observers that the caller may see."""

    observers: list[Observer]


class Deleted(TypedDict):
    """What there is no more."""

    deleted: str


class Failure(TypedDict):
    """A delivery that nobody tries any more."""

    id: str
    event: EventIdentity
    key: str
    address: str
    replay: str | None
    tries: Count
    error: str
    at: Time


class Failures(TypedDict):
    """Deliveries that nobody tries any more; more of them after the last one's id."""

    failures: list[Failure]


class Retried(TypedDict):
    """How many deliveries are tried again."""

    retried: Count


class Replayed(TypedDict):
    """How far a replay has come; unless it is done, ask again with what this says."""

    replay: str
    eventId: EventId
    until: EventId
    deliveries: Count
    done: bool
