"""Routes of reports.

A browser that opens a report page sends no token. The console therefore requests a link with a ticket, which is valid
for one minute.
"""

from collections.abc import Mapping

from chalice.app import Blueprint, Response

from chalicelib.domain.errors import NotFound
from chalicelib.domain.organizations.organization import Organization
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.auth.access import LogContext
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.services.exports.report_events import report_link
from chalicelib.wiring import get_components
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
"""A report contains its own styles and images. Scripts do not run, and the page cannot access the console."""


@routes.route("/reports", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("reports", {200: "Reports"}, query=parameters.ReportsParameters)
@problems.handle_errors
def get_reports() -> Response:
    """The finished reports, newest first. The next page is before the `eventId` of the last one."""
    context = access.reader()
    params = requests.query(parameters.ReportsParameters, context.request)
    latest = reports(context.components).latest(context.server, limit=params.limit, before=params.before)
    return responses.reports((report.name, report.at_us, report.event_id, report.link) for report in latest)


@routes.route("/reports/{name}/link", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("reports", {200: "ReportLink"}, problems=(404,))
@problems.handle_errors
def post_report_link(name: str) -> Response:
    """A link to a report's page that a browser can open for one minute. A relative link is relative to this API."""
    return responses.json_response({"link": _link(access.reader(), name)})


@routes.route("/reports/{name}", methods=["GET"], **authorizer.PUBLIC)
@route_doc("reports", {}, query=parameters.TicketParameters, media_types={200: ("text/html",)}, problems=(403, 404))
@problems.handle_errors
def get_report(name: str) -> Response:
    """The page of a report, for callers with a ticket."""
    components = get_components()
    ticket = requests.query(parameters.TicketParameters, authorizer.current_request()).ticket
    server = components.auth.tickets.verify(ticket, name)
    pages = file_pages(components)
    page = None if pages is None else pages.page(server, name)
    if page is None:
        raise _missing_page(name)
    return Response(page, dict(HEADERS), 200)


def _link(context: LogContext, name: str) -> str:
    """A link to the configured report URL, to a file of this server, or to S3."""
    components, server = context.components, context.server
    reports(components).existing_name(server, name)
    if components.settings.exports.report_url:
        return report_link(components.settings.exports.report_url, Organization(context.organization, server))
    pages = file_pages(components)
    if pages is None:
        return s3_pages(components).link(server, name)
    if pages.page(server, name) is None:
        raise _missing_page(name)
    return f"reports/{name}?ticket={components.auth.tickets.issue(server, name)}"


def _missing_page(name: str) -> NotFound:
    return NotFound(f"the page of the report '{name[:80]}' was deleted; run `make report` to create it again")
