"""The route of the API's own description."""

from functools import cache

from chalice.app import Blueprint, Response
from pydantic_core import to_json

from chalicelib import __version__
from chalicelib.api import problems, responses
from chalicelib.api.describing import described
from chalicelib.routes import access

routes = Blueprint(__name__)


@routes.route("/openapi.json", methods=["GET"], **access.ANYBODY)
@described("installation", {200: "OpenApi"})
@problems.answered
def get_openapi() -> Response:
    """What this API takes and gives, as OpenAPI 3.1."""
    return Response(_text(), responses.JSON, 200)


@cache
def _text() -> str:
    """The document, made when it is first asked for."""
    from chalicelib.api.openapi import document  # noqa: PLC0415  (models of answers take long to load)

    return to_json(document(routes.current_app.routes, __version__)).decode()
