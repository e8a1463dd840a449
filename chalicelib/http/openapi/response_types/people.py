"""Responses for the web console: the signed-in user and the system's status."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.http.openapi.response_types.installation import LogHead
from chalicelib.http.openapi.response_types.scalars import Count, Time

Seconds = Annotated[float, Field(ge=0)]


class SignedIn(TypedDict):
    """The token of a user who signed in."""

    token: str


class Rights(TypedDict):
    """The rights of the caller."""

    read: bool
    publish: bool
    administer: bool


class Me(TypedDict):
    """The caller, the expiry of their token, and their rights."""

    user: str
    organizations: list[str]
    groups: list[str]
    may: Rights
    expires: Time


class StampedHead(LogHead):
    """The last event of a log and its time."""

    timestamp: Time | None


class Follower(TypedDict):
    """The position of a consumer. `behind` counts commits."""

    name: str
    eventId: EventId
    behind: Count
    lagSeconds: Seconds


class SystemSettings(TypedDict):
    """Settings of the installation."""

    longestPollS: Seconds
    streams: bool


class System(TypedDict):
    """The status of the organization's log and of its consumers."""

    version: str
    mode: Literal["embedded", "aws"]
    organization: str
    head: StampedHead
    events: Count | None
    firstKept: EventId | None
    consumers: list[Follower]
    organizations: list[str]
    retention: str | None
    settings: SystemSettings
