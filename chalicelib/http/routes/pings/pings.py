"""Routes of pings, with the paths and parameters of Healthchecks.io. They need no token: the key is in the path."""

from collections.abc import Mapping
from http import HTTPStatus

from chalice.app import Blueprint, Response

from chalicelib.domain.pings.ping import MAX_OUTPUT_BYTES, SUCCESS, Ping, Signal, check_name, parse_signal
from chalicelib.http import ping_parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.openapi.annotations import RouteDoc
from chalicelib.wiring import get_components

routes = Blueprint(__name__)

METHODS = ["GET", "HEAD", "POST"]
HEADERS: Mapping[str, str] = {
    "Content-Type": "text/plain; charset=utf-8",
    "Ping-Body-Limit": str(MAX_OUTPUT_BYTES),
    **{name: str(value) for name, value in responses.DATA.items()},
}
"""Programs that send pings with a body read its limit from the response."""

_TEXT = ("text/plain",)
ping_doc = RouteDoc(
    "pings",
    {},
    query=ping_parameters.PingParameters,
    text_body=True,
    media_types={HTTPStatus.OK: _TEXT, HTTPStatus.CREATED: _TEXT},
    organization=False,
    headers=("Idempotency-Key",),
    problems=(404,),
)


@routes.route("/ping/{key}/{name}", methods=METHODS, **authorizer.PUBLIC)
@ping_doc
@problems.handle_errors
def ping_success(key: str, name: str) -> Response:
    """A job of this type has succeeded.

    It finishes the run that is open, or else records a run that begins and ends at once. The body becomes the log of
    the run.
    """
    return _record(key, name, SUCCESS)


@routes.route("/ping/{key}/{name}/{signal}", methods=METHODS, **authorizer.PUBLIC)
@ping_doc
@problems.handle_errors
def ping_signal(key: str, name: str, signal: str) -> Response:
    """A job of this type has started or failed, has logged something, or has ended with an exit status.

    An exit status of 0 is a success, all others are failures. The last line of the body is the message of a failure.
    """
    return _record(key, name, signal)


def _record(key: str, name: str, signal: str | Signal) -> Response:
    request, pings = authorizer.current_request(), get_components().pings
    # A caller without a valid key learns nothing else.
    server, ping_key = pings.keys.verify(key)
    query = requests.query(ping_parameters.PingParameters, request)
    ping = Ping(
        name=check_name(name, "the name of a job type"),
        signal=parse_signal(signal) if isinstance(signal, str) else signal,
        node=None if query.node is None else check_name(query.node, "node"),
        rid=query.rid,
        may_create=query.create == "1",
        body=requests.text_body(request),
    )
    recorded = pings.recorder.record(server, ping, ping_key.name, requests.idempotency_key(request))
    return _response(recorded.is_new_name, recorded.is_replayed)


def _response(is_new_name: bool, is_replayed: bool) -> Response:
    headers = dict[str, str | list[str]]({**HEADERS, **(responses.IDEMPOTENT_REPLAYED if is_replayed else {})})
    return Response("Created", headers, HTTPStatus.CREATED) if is_new_name else Response("OK", headers, HTTPStatus.OK)
