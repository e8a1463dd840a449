"""Routes that try observers: what one would say, and one message to see it arrive."""

from functools import cache

from chalice.app import Blueprint, Response

from chalicelib.domain.errors import BadInput, Undeliverable
from chalicelib.domain.notifications.observer import Observer, name_checked
from chalicelib.http import observer_parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.openapi.annotations import described
from chalicelib.http.routes.observers import configurable, existing, reader
from chalicelib.services.notifications.deliverer import Delivering
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/observers/{name}/preview", methods=["POST"], **authorizer.MEMBERS)
@described("observers", {200: "Preview"}, body=observer_parameters.PreviewRequest, refusals=(404,))
@problems.answered
def post_preview(name: str) -> Response:
    """What an observer with this configuration would say about an event; nothing is sent, nothing is kept."""
    caller, server = reader()
    wanted = requests.body(observer_parameters.PreviewRequest, authorizer.request())
    configuration = configurable(caller, server, name, wanted.configuration)
    from chalicelib.wiring.notifications import previewing  # noqa: PLC0415  (templates take long to load)

    observer = Observer(name_checked(name), configuration, since=0)
    try:
        found = previewing(annals()).preview(server, observer, wanted.event)
    except Undeliverable as failure:
        raise BadInput(str(failure)) from failure
    return responses.preview(found.event, found.why, found.message, found.addresses)


@routes.route("/observers/{name}/test", methods=["POST"], **authorizer.MEMBERS)
@described("observers", {200: "Tested"}, body_or_nothing=observer_parameters.TestRequest, refusals=(404, 502))
@problems.answered
def post_test(name: str) -> Response:
    """Have an observer tell of an event now, as a test: whatever its filter says, and only once."""
    server, observer = existing(name)
    wanted = requests.body_or_nothing(observer_parameters.TestRequest, authorizer.request())
    from chalicelib.wiring.notifications import previewing  # noqa: PLC0415  (as above)

    for message in previewing(annals()).tests(server, observer, wanted.event):
        _delivering().send(message)
    return responses.plain({"sent": True})


@cache
def _delivering() -> Delivering:
    from chalicelib.wiring.notifications import delivering  # noqa: PLC0415  (as above)

    return delivering(annals())
