"""Responses of the routes of silences and acknowledgements."""

from typing import NotRequired

from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.http.openapi.response_types.scalars import Time


class Silence(TypedDict):
    """A silence. Events of the job type or of the pattern notify no observer until its time."""

    id: EventId
    type: NotRequired[str]
    pattern: NotRequired[list[str]]
    since: Time
    until: Time
    comment: str
    by: NotRequired[str]


class Silences(TypedDict):
    """The silences in effect, the newest first. If more follow, the next page is before the last id."""

    silences: list[Silence]
    moreFollows: bool


class EndedSilence(TypedDict):
    """The id of the silence that was ended."""

    ended: EventId


class Acknowledgement(TypedDict):
    """An acknowledgement. Failures of the job type notify no observer until it recovers, or until its time."""

    id: EventId
    type: str
    since: Time
    until: NotRequired[Time]
    comment: str
    by: NotRequired[str]


class Acknowledgements(TypedDict):
    """The acknowledgements in effect, the newest first. If more follow, the next page is before the last id."""

    acknowledgements: list[Acknowledgement]
    moreFollows: bool
