"""Responses of the routes of reports."""

from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.http.openapi.response_types.scalars import Time


class Report(TypedDict):
    """A finished report. `link` is the URL in its event, if there is one."""

    name: str
    at: Time
    eventId: EventId
    link: str | None


class Reports(TypedDict):
    """Reports, newest first. The next page is before the `eventId` of the last one."""

    reports: list[Report]


class ReportLink(TypedDict):
    """A link to a report's page for browsers. A relative link is relative to this API."""

    link: str
