"""Routes of snoozes, silences and acknowledgements."""

from chalice.app import Blueprint, Response

from chalicelib.domain.calm.mutes import Kind
from chalicelib.http import problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.auth.access import LogContext
from chalicelib.http.calm_parameters import AcknowledgementRequest, MutesParameters, SilenceRequest, SnoozeRequest
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.http.routes.observers import find_observer, observer_json

routes = Blueprint(__name__)


@routes.route("/observers/{name}/snooze", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Observer"}, body=SnoozeRequest, problems=(404, 409))
@problems.handle_errors
def post_snooze(name: str) -> Response:
    """Hold all messages of an observer until a time. Then it sends one message for each group."""
    context = access.reader()
    find_observer(context, name)
    until_us = requests.body(SnoozeRequest, context.request).until
    now_us = context.components.clock() * 1000
    notifications = context.components.notifications
    observer = notifications.observers.snooze(context.server, name, now_us if until_us is None else until_us)
    notifications.calm.reschedule(context.server, name, now_us)
    return responses.json_response(observer_json(context, observer))


@routes.route("/silences", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Silences"}, query=MutesParameters)
@problems.handle_errors
def get_silences() -> Response:
    """The silences in effect, the newest first."""
    context = access.reader()
    return _page(context, "silence", requests.query(MutesParameters, context.request))


@routes.route("/silences", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("observers", {201: "Silence"}, body=SilenceRequest)
@problems.handle_errors
def post_silence() -> Response:
    """Silence a job type, or a pattern of event types, until a time: no observer is notified of these events."""
    context = access.publisher()
    body = requests.body(SilenceRequest, context.request)
    alerts, by = context.components.notifications.alerts, context.caller.audit_name
    silence = alerts.silence(context.server, body.type, body.pattern, body.until, body.comment, by)
    return responses.json_response(silence.json, 201)


@routes.route("/silences/{silence}", methods=["DELETE"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "EndedSilence"}, problems=(404,))
@problems.handle_errors
def delete_silence(silence: str) -> Response:
    """End a silence before its time."""
    context = access.publisher()
    number = int(silence) if silence.isascii() and silence.isdecimal() and len(silence) < 20 else 0
    context.components.notifications.alerts.end_silence(context.server, number, context.caller.audit_name)
    return responses.json_response({"ended": number})


@routes.route("/acknowledgements", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Acknowledgements"}, query=MutesParameters)
@problems.handle_errors
def get_acknowledgements() -> Response:
    """The acknowledgements in effect, the newest first."""
    context = access.reader()
    return _page(context, "acknowledgement", requests.query(MutesParameters, context.request))


@routes.route("/acknowledgements", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("observers", {201: "Acknowledgement"}, body=AcknowledgementRequest)
@problems.handle_errors
def post_acknowledgement() -> Response:
    """Acknowledge the failures of a job type: they notify no observer until the job recovers, or until a time."""
    context = access.publisher()
    body = requests.body(AcknowledgementRequest, context.request)
    alerts, by = context.components.notifications.alerts, context.caller.audit_name
    acknowledgement = alerts.acknowledge(context.server, body.type, body.until, body.comment, by)
    return responses.json_response(acknowledgement.json, 201)


def _page(context: LogContext, kind: Kind, params: MutesParameters) -> Response:
    active = context.components.notifications.alerts.active(context.server, kind)
    following = [mute.json for mute in active if params.before is None or mute.id < params.before]
    page = following[: params.limit]
    return responses.json_response({f"{kind}s": page, "moreFollows": len(page) < len(following)})
