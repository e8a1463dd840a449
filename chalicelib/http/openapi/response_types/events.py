"""Responses of the routes of events: append, feeds, queries."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.event import Payload
from chalicelib.domain.events.ids import EventId
from chalicelib.domain.vocabularies.job.events import Number
from chalicelib.http.openapi.response_types.scalars import Count, Time

Place = Annotated[int, Field(ge=1)]
Position = Annotated[int, Field(ge=0, description="The number of events in the log up to here. Missing if unknown.")]


class EventIdentity(TypedDict):
    """The id of an event: the log, the commit in the log, the position in the commit."""

    server: Place
    session: Count
    instance: Count


class Event(TypedDict):
    """An event in the log."""

    id: EventIdentity
    eventId: EventId
    position: Annotated[
        int | None,
        Field(ge=1, description="Counts the events of the log without gaps. null: written by version 0.1.0 on AWS."),
    ]
    timestamp: Time
    type: list[str]
    key: str | None
    sourceTimestamp: Time | None
    payload: Payload | None
    tags: list[str]


class Published(TypedDict):
    """The events with their numbers. `eventId` and `position` are those of the last event."""

    events: list[Event]
    position: NotRequired[Position]
    eventId: EventId


class IgnoredEvent(TypedDict):
    """An event that was not written: its index in the request, and the reason."""

    place: Count
    reason: str


class PublishedEvents(Published):
    """The written events with their numbers. `ignored` lists the others, by their index in the request.

    `ids` are the ids of the jobs that were created without an id, in the order of the request.
    """

    ignored: NotRequired[list[IgnoredEvent]]
    ids: NotRequired[list[Number]]


class Queried(TypedDict):
    """The matching events. If `moreFollows`, continue after the id of the last event."""

    events: list[Event]
    moreFollows: bool
    eventId: EventId


class Empty(TypedDict):
    """No event matched before the timeout. Continue after `eventId`."""

    TYPE: Literal["Empty"]
    eventId: EventId
    lastEventId: EventId
    position: NotRequired[Position]
    moreFollows: NotRequired[bool]
    readUpTo: NotRequired[EventId]


class Torn(TypedDict):
    """Events after the requested position are no longer retained. Restart with a snapshot, or after `eventId`."""

    TYPE: Literal["Torn"]
    eventId: EventId
    position: NotRequired[Position]
    moreFollows: NotRequired[Literal[True]]
    readUpTo: NotRequired[EventId]


class InboxMessage(TypedDict):
    """A message in a user's inbox, and the event that caused it. `read` is as of the request."""

    eventId: EventId
    read: bool
    observer: str
    subject: str
    body: str
    event: EventIdentity
