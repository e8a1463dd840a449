"""The route of the system's status, for operators."""

from chalice.app import Blueprint, Response

from chalicelib import __version__
from chalicelib.domain import durations
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.services.admin.status import ConsumerCheckpoints, log_status

routes = Blueprint(__name__)

MAX_ORGANIZATIONS = 100
"""Limit of the organizations in the response, unless the caller gives another."""


@routes.route("/system", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("installation", {200: "System"}, query=parameters.SystemParameters)
@problems.handle_errors
def get_system() -> Response:
    """The head of the organization's log, the progress of its consumers, and the settings of the installation.

    `organizations` lists those of the token that exist, at most 100 unless `limit` says otherwise.
    """
    context = access.reader()
    params = requests.query(parameters.SystemParameters, context.request)
    components, server = context.components, context.server
    checkpoints = ConsumerCheckpoints(components.stores.views, components.stores.progress)
    boundary = components.log.retention.boundary(server)
    status = log_status(server, components.stores.log, checkpoints, boundary, components.clock)
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
            "organizations": _organizations(context, params),
            "retention": None if settings.retention_s is None else durations.iso(settings.retention_s),
            "settings": {"longestPollS": settings.max_poll_s, "streams": settings.streams},
        }
    )


def _organizations(context: access.LogContext, params: parameters.SystemParameters) -> list[str]:
    """Names of a page of the caller's organizations that exist."""
    directory, names = context.components.log.organizations, context.caller.organizations
    if params.limit is None and not params.after:
        return [organization.name for organization in directory.existing(names[:MAX_ORGANIZATIONS])]
    # A page may contain names that do not exist, so read on until it is full.
    limit, following = params.limit or MAX_ORGANIZATIONS, sorted({name for name in names if name > params.after})
    page: list[str] = []
    while following and len(page) < limit:
        candidates, following = following[: limit - len(page)], following[limit - len(page) :]
        page += sorted(organization.name for organization in directory.existing(candidates))
    return page
