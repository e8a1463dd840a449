"""Routes of the OpenAPI and AsyncAPI documents."""

from functools import cache

from chalice.app import Blueprint, Response
from pydantic_core import from_json, to_json

from chalicelib import __version__
from chalicelib.http import problems, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.openapi.annotations import route_doc

routes = Blueprint(__name__)


@routes.route("/openapi.json", methods=["GET"], **authorizer.PUBLIC)
@route_doc("installation", {200: "OpenApi"})
@problems.handle_errors
def get_openapi() -> Response:
    """This API, as OpenAPI 3.1."""
    return Response(_openapi_json(), responses.JSON, 200)


@routes.route("/asyncapi.json", methods=["GET"], **authorizer.PUBLIC)
@route_doc("installation", {200: "AsyncApi"})
@problems.handle_errors
def get_asyncapi() -> Response:
    """The feeds of this API, as AsyncAPI 3.0."""
    return Response(_asyncapi_json(), responses.JSON, 200)


@cache
def _openapi_json() -> str:
    from chalicelib.http.openapi.document import document  # noqa: PLC0415  (the response types take long to load)

    return to_json(document(routes.current_app.routes, __version__)).decode()


@cache
def _asyncapi_json() -> str:
    from chalicelib.http.asyncapi.document import document  # noqa: PLC0415

    return to_json(document(from_json(_openapi_json()))).decode()
