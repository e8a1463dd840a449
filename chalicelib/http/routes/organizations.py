"""Routes of the installation: its organizations and its health."""

from chalice.app import Blueprint, Response

from chalicelib import __version__
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.wiring import get_components

routes = Blueprint(__name__)


@routes.route("/organizations/{org}", methods=["PUT"], **authorizer.AUTHENTICATED)
@route_doc("installation", {200: "Organization", 201: "Organization"}, problems=(400,))
@problems.handle_errors
def put_organization(org: str) -> Response:
    """Create an organization."""
    context = access.admin()
    name = context.caller.organization(org)
    return responses.organization(*context.components.log.organizations.create(name))


@routes.route("/health", methods=["GET"], **authorizer.PUBLIC)
@route_doc("installation", {200: "Health"}, query=parameters.HealthParameters)
@problems.handle_errors
def get_health() -> Response:
    """Check that logs are readable, and return their heads: 10 unless `limit` says otherwise.

    The next page starts after the last server number.
    """
    params = requests.query(parameters.HealthParameters, authorizer.current_request())
    return responses.health(get_components().log.health.heads(params.after, params.limit), __version__)
