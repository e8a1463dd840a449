"""Routes that help to configure observers: presets, previews and test messages."""

from functools import cache

from chalice.app import Blueprint, Response

from chalicelib.domain.errors import BadInput, Undeliverable
from chalicelib.domain.notifications.observer import Observer, check_name
from chalicelib.domain.notifications.presets import PRESETS
from chalicelib.http import observer_parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.http.routes.observers import authorize_and_validate, find_observer
from chalicelib.services.notifications.deliverer import Deliverer
from chalicelib.wiring import get_components

routes = Blueprint(__name__)


@routes.route("/observer-presets", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "ObserverPresets"})
@problems.handle_errors
def get_observer_presets() -> Response:
    """Configurations for common wishes. Add a channel and its `config` to use one."""
    access.reader()
    return responses.json_response({"presets": [preset.json for preset in PRESETS]})


@routes.route("/observers/{name}/preview", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Preview"}, body=observer_parameters.PreviewRequest, problems=(404,))
@problems.handle_errors
def post_preview(name: str) -> Response:
    """The message that an observer with this configuration would send. Nothing is sent or stored."""
    context = access.reader()
    params = requests.body(observer_parameters.PreviewRequest, context.request)
    configuration = authorize_and_validate(context, name, params.configuration)
    from chalicelib.wiring.notifications import build_previewer  # noqa: PLC0415  (loading Jinja2 takes long)

    observer = Observer(check_name(name), configuration, since=0)
    try:
        preview = build_previewer(context.components).preview(context.server, observer, params.event)
    except Undeliverable as error:
        raise BadInput(str(error)) from error
    return responses.preview(preview.event, preview.skip_reason, preview.message, preview.addresses)


@routes.route("/observers/{name}/test", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("observers", {200: "Tested"}, optional_body=observer_parameters.TestRequest, problems=(404, 502))
@problems.handle_errors
def post_test(name: str) -> Response:
    """Send a test message immediately, about the given event or the latest that the observer would send.

    The message is not retried.
    """
    context = access.reader()
    observer = find_observer(context, name)
    params = requests.optional_body(observer_parameters.TestRequest, context.request)
    from chalicelib.wiring.notifications import build_previewer  # noqa: PLC0415

    for message in build_previewer(context.components).test_messages(context.server, observer, params.event):
        _deliverer().send(message)
    return responses.json_response({"sent": True})


@cache
def _deliverer() -> Deliverer:
    """Cached, because it keeps its connections."""
    from chalicelib.wiring.notifications import build_deliverer  # noqa: PLC0415

    return build_deliverer(get_components())
