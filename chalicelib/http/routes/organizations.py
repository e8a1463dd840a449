"""Routes of the installation: its organizations, and how it is."""

from chalice.app import Blueprint, Response

from chalicelib import __version__
from chalicelib.http import problems, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import Caller
from chalicelib.http.openapi.annotations import described
from chalicelib.services.admin import health
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/organizations/{org}", methods=["PUT"], **authorizer.MEMBERS)
@described("installation", {200: "Organization", 201: "Organization"}, refusals=(400,))
@problems.answered
def put_organization(org: str) -> Response:
    """Create an organization."""
    parts = annals()
    caller = Caller.of(authorizer.request()).admin(parts.settings.groups)
    return responses.organization(*parts.organizations.create(caller.organization(org)))


@routes.route("/health", methods=["GET"], **authorizer.ANYBODY)
@described("installation", {200: "Health"})
@problems.answered
def get_health() -> Response:
    """Whether the log can be read, and where it stands."""
    parts = annals()
    return responses.health(health.heads(parts.log, parts.organizations), __version__)
