"""Responses of the routes of expectations, silences and acknowledgements."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.http.openapi.response_types.scalars import Count, Time


class OpenAlarm(TypedDict):
    """The alarms of one kind since the last recovery: their number, and when the first and the last fell due."""

    kind: Literal["missed", "late", "overdue", "early"]
    count: Count
    since: Time
    last: Time


class ExpectationStatus(TypedDict):
    """An expectation and its status. Durations are in ISO-8601.

    `state` is `new` until the first run, and the worst open alarm if there is one. `nextExpectedAt` is null if runs are
    not expected at certain times.
    """

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
    since: EventId
    state: Literal["ok", "new", "paused", "missed", "late", "overdue", "early"]
    stateSince: Time
    nextExpectedAt: Time | None
    lastStartAt: Time | None
    openAlarms: list[OpenAlarm]


class Expectations(TypedDict):
    """Expectations, ordered by name. If more follow, the next page starts after the last name."""

    expectations: list[ExpectationStatus]
    moreFollows: bool


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
