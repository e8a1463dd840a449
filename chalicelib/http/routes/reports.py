"""Routes of reports: which there are, and their pages.

A browser that opens a page sends no token along, so whoever has one asks for a link first, which is good for a minute.
"""

from collections.abc import Mapping

from chalice.app import Blueprint, Response

from chalicelib.domain.errors import NotFound
from chalicelib.domain.organizations.organization import Organization
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import Caller
from chalicelib.http.openapi.annotations import described
from chalicelib.services.exports.report_events import report_link
from chalicelib.wiring import annals
from chalicelib.wiring.reports import file_pages, reports, s3_pages

routes = Blueprint(__name__)

HEADERS: Mapping[str, str] = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'; sandbox allow-popups"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""A report has styles and pictures of its own; nothing in it runs, and nothing of ours is in its reach."""


@routes.route("/reports", methods=["GET"], **authorizer.MEMBERS)
@described("reports", {200: "Reports"}, query=parameters.NoParameters)
@problems.answered
def get_reports() -> Response:
    """The reports that became ready, the newest first."""
    organization = _organization()
    requests.query(parameters.NoParameters, authorizer.request())
    found = reports(annals()).latest(organization.server)
    return responses.reports((one.name, one.at_us, one.event_id, one.link) for one in found)


@routes.route("/reports/{name}/link", methods=["POST"], **authorizer.MEMBERS)
@described("reports", {200: "ReportLink"}, refusals=(404,))
@problems.answered
def post_report_link(name: str) -> Response:
    """A link to a report's page that a browser can open, for a minute; a relative one is below this API."""
    return responses.plain({"link": _link(name, _organization())})


@routes.route("/reports/{name}", methods=["GET"], **authorizer.ANYBODY)
@described("reports", {}, query=parameters.TicketParameters, media={200: ("text/html",)}, refusals=(403, 404))
@problems.answered
def get_report(name: str) -> Response:
    """The page of a report, for whoever has a link to it."""
    wanted = requests.query(parameters.TicketParameters, authorizer.request())
    server = annals().tickets.server(wanted.ticket, name)
    pages = file_pages(annals())
    page = None if pages is None else pages.page(server, name)
    if page is None:
        raise _missing(name)
    return Response(page, dict(HEADERS), 200)


def _organization() -> Organization:
    """The organization whose reports the caller may read."""
    parts = annals()
    caller = Caller.of(authorizer.request()).reader(parts.settings.groups)
    name = caller.organization()
    return Organization(name, parts.organizations.server(name))


def _link(name: str, organization: Organization) -> str:
    """Where the operators say that reports are; else here, if they are on this machine, or in S3."""
    parts, server = annals(), organization.server
    reports(parts).checked(server, name)
    if parts.settings.exports.report_url:
        return report_link(parts.settings.exports.report_url, organization)
    pages = file_pages(parts)
    if pages is None:
        return s3_pages(parts).link(server, name)
    if pages.page(server, name) is None:
        raise _missing(name)
    return f"reports/{name}?ticket={parts.tickets.issue(server, name)}"


def _missing(name: str) -> NotFound:
    return NotFound(f"the page of the report '{name[:80]}' is gone; `make report` makes it anew")
