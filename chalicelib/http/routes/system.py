"""The route of the system: what those who run it want to know first."""

from chalice.app import Blueprint, Response

from chalicelib import __version__
from chalicelib.domain import durations
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import Caller
from chalicelib.http.openapi.annotations import described
from chalicelib.services.admin.status import Consumers, standing
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/system", methods=["GET"], **authorizer.MEMBERS)
@described("installation", {200: "System"}, query=parameters.NoParameters)
@problems.answered
def get_system() -> Response:
    """Where the organization's log stands, how far its consumers have come, and how the installation is set up."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    organization = caller.organization()
    server = parts.organizations.server(organization)
    requests.query(parameters.NoParameters, request)
    consumers = Consumers(parts.views, parts.progress)
    found = standing(server, parts.log, consumers, parts.retention.forgotten(server), parts.clock)
    settings = parts.settings
    return responses.plain(
        {
            "version": __version__,
            "mode": "embedded" if settings.store == "sqlite" else "aws",
            "organization": organization,
            **responses.standing_value(found.head, found.first_kept),
            "consumers": [
                {"name": one.name, "eventId": one.head.last, "behind": one.behind, "lagSeconds": one.lag_s}
                for one in found.followers
            ],
            "organizations": [one.name for one in parts.organizations.all() if one.name in caller.organizations],
            "retention": None if settings.retention_s is None else durations.iso(settings.retention_s),
            "settings": {"longestPollS": settings.longest_poll_s, "streams": settings.streams},
        }
    )
