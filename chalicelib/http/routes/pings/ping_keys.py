"""Routes of ping keys: create, list and delete."""

from chalice.app import Blueprint, Response

from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.auth.access import LogContext
from chalicelib.http.openapi.annotations import route_doc

routes = Blueprint(__name__)


@routes.route("/ping-keys", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("ping keys", {200: "PingKeys"}, query=parameters.NoParameters)
@problems.handle_errors
def get_ping_keys() -> Response:
    """The ping keys of the organization, without their texts. For admins."""
    context = _admin()
    requests.query(parameters.NoParameters, context.request)
    keys = context.components.pings.keys.load(context.server).by_name
    return responses.json_response({"pingKeys": [keys[name].json for name in sorted(keys)]})


@routes.route("/ping-keys/{name}", methods=["PUT"], **authorizer.AUTHENTICATED)
@route_doc("ping keys", {201: "NewPingKey"}, problems=(400, 409))
@problems.handle_errors
def put_ping_key(name: str) -> Response:
    """Create a ping key. For admins.

    Its text is in this response only. Anyone with this text can send pings of the organization, and do nothing else.
    """
    context = _admin()
    keys, by = context.components.pings.keys, context.caller.audit_name
    key, text = keys.create(context.organization, context.server, name, by)
    return responses.json_response({**key.json, "key": text}, 201)


@routes.route("/ping-keys/{name}", methods=["DELETE"], **authorizer.AUTHENTICATED)
@route_doc("ping keys", {200: "Deleted"}, problems=(404, 409))
@problems.handle_errors
def delete_ping_key(name: str) -> Response:
    """Delete a ping key. Its URLs do not work any more. For admins."""
    context = _admin()
    context.components.pings.keys.delete(context.server, name, context.caller.audit_name)
    return responses.json_response({"deleted": name})


def _admin() -> LogContext:
    context = access.reader()
    context.caller.require_admin(context.components.settings.groups)
    return context
