"""The routes of the API's own description, and of its feeds'."""

from functools import cache

from chalice.app import Blueprint, Response
from pydantic_core import from_json, to_json

from chalicelib import __version__
from chalicelib.http import problems, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.openapi.annotations import described

routes = Blueprint(__name__)


@routes.route("/openapi.json", methods=["GET"], **authorizer.ANYBODY)
@described("installation", {200: "OpenApi"})
@problems.answered
def get_openapi() -> Response:
    """What this API takes and gives, as OpenAPI 3.1."""
    return Response(_text(), responses.JSON, 200)


@routes.route("/asyncapi.json", methods=["GET"], **authorizer.ANYBODY)
@described("installation", {200: "AsyncApi"})
@problems.answered
def get_asyncapi() -> Response:
    """What comes over the feeds of this API, as AsyncAPI 3.0."""
    return Response(_text_of_feeds(), responses.JSON, 200)


@cache
def _text() -> str:
    """The document, made when it is first asked for."""
    from chalicelib.http.openapi import document  # noqa: PLC0415  (models of answers take long to load)

    return to_json(document(routes.current_app.routes, __version__)).decode()


@cache
def _text_of_feeds() -> str:
    from chalicelib.http import asyncapi  # noqa: PLC0415

    return to_json(asyncapi.document(from_json(_text()))).decode()
