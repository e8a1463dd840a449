"""Answers of the routes of events: appending, feeds, queries."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.event import Payload
from chalicelib.domain.events.ids import EventId
from chalicelib.http.openapi.answers.appended import Count, Time

Place = Annotated[int, Field(ge=1)]


class EventIdentity(TypedDict):
    """Which event: the log, the commit in it, the place in the commit."""

    server: Place
    session: Count
    instance: Count


class Event(TypedDict):
    """An event in the log."""

    id: EventIdentity
    eventId: EventId
    timestamp: Time
    type: list[str]
    key: str | None
    sourceTimestamp: Time | None
    payload: Payload | None


class Published(TypedDict):
    """The events as the log numbered them; `eventId` is the last one's."""

    events: list[Event]
    eventId: EventId


class IgnoredEvent(TypedDict):
    """An event that was not written, by its place in the request, and why."""

    place: Count
    reason: str


class PublishedEvents(Published):
    """As of all events; `ignored` is what a job reported that nobody created."""

    ignored: NotRequired[list[IgnoredEvent]]


class Queried(TypedDict):
    """Events found; with `moreFollows` ask on after the last one's id."""

    events: list[Event]
    moreFollows: bool
    eventId: EventId


class Empty(TypedDict):
    """Nothing matched until the deadline: ask again after `eventId`."""

    TYPE: Literal["Empty"]
    eventId: EventId
    lastEventId: EventId


class Torn(TypedDict):
    """Something after the position asked for is forgotten: begin again with a snapshot, or after `eventId`."""

    TYPE: Literal["Torn"]
    eventId: EventId


class InboxMessage(TypedDict):
    """What a user was told in the app, and because of which event."""

    eventId: EventId
    observer: str
    subject: str
    body: str
    event: EventIdentity
