"""Routes of the installation: its organizations, and how it is."""

from chalice.app import Blueprint, Response

from chalicelib import __version__
from chalicelib.api import problems, responses
from chalicelib.api.callers import Caller
from chalicelib.api.describing import described
from chalicelib.routes import access
from chalicelib.services import health
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/organizations/{org}", methods=["PUT"], **access.MEMBERS)
@described("installation", {200: "Organization", 201: "Organization"}, refusals=(400,))
@problems.answered
def put_organization(org: str) -> Response:
    """Create an organization."""
    parts = annals()
    caller = Caller.of(access.request()).admin(parts.settings.groups)
    return responses.organization(*parts.organizations.create(caller.organization(org)))


@routes.route("/health", methods=["GET"], **access.ANYBODY)
@described("installation", {200: "Health"})
@problems.answered
def get_health() -> Response:
    """Whether the log can be read, and where it stands."""
    parts = annals()
    return responses.health(health.heads(parts.log, parts.organizations), __version__)
