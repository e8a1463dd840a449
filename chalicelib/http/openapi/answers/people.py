"""Answers for the people who sit before the console: who they are, and how the system is."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.http.openapi.answers.appended import Count, Time
from chalicelib.http.openapi.answers.installation import LogHead

Seconds = Annotated[float, Field(ge=0)]


class SignedIn(TypedDict):
    """A token, for a code."""

    token: str


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
    expires: Time


class StampedHead(LogHead):
    """Where a log ends, and since when."""

    timestamp: Time | None


class Follower(TypedDict):
    """How far a consumer has come; `behind` counts commits."""

    name: str
    eventId: EventId
    behind: Count
    lagSeconds: Seconds


class SystemSettings(TypedDict):
    """How the installation is set up."""

    longestPollS: Seconds
    streams: bool


class System(TypedDict):
    """Where the organization's log stands, and how far its consumers have come."""

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
