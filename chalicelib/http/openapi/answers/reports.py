"""Answers of the routes of reports."""

from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.http.openapi.answers.appended import Time


class Report(TypedDict):
    """A report that has become ready; `link` if the event names a place on the web."""

    name: str
    at: Time
    eventId: EventId
    link: str | None


class Reports(TypedDict):
    """Reports, the newest first."""

    reports: list[Report]


class ReportLink(TypedDict):
    """Where a browser can open the page; a relative link is below this API."""

    link: str
