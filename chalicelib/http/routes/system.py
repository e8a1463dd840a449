"""The route of the system's status, for operators."""

from chalice.app import Blueprint, Response

from chalicelib import __version__
from chalicelib.domain import durations
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.services.admin.status import ConsumerCheckpoints, log_status

routes = Blueprint(__name__)


@routes.route("/system", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("installation", {200: "System"}, query=parameters.NoParameters)
@problems.handle_errors
def get_system() -> Response:
    """The head of the organization's log, the progress of its consumers, and the settings of the installation."""
    context = access.reader()
    requests.query(parameters.NoParameters, context.request)
    components, server = context.components, context.server
    checkpoints = ConsumerCheckpoints(components.stores.views, components.stores.progress)
    boundary = components.log.retention.boundary(server)
    status = log_status(server, components.stores.log, checkpoints, boundary, components.clock)
    organizations = [organization.name for organization in components.log.organizations.all()]
    settings = components.settings
    return responses.json_response(
        {
            "version": __version__,
            "mode": "embedded" if settings.store == "sqlite" else "aws",
            "organization": context.organization,
            **responses.log_status_value(status.head, status.first_kept),
            "consumers": [
                {
                    "name": consumer.name,
                    "eventId": consumer.head.last_event_id,
                    "behind": consumer.behind,
                    "lagSeconds": consumer.lag_s,
                }
                for consumer in status.consumers
            ],
            "organizations": [name for name in organizations if name in context.caller.organizations],
            "retention": None if settings.retention_s is None else durations.iso(settings.retention_s),
            "settings": {"longestPollS": settings.max_poll_s, "streams": settings.streams},
        }
    )
