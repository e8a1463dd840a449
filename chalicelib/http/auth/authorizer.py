"""Who may come in: the authorizer, and the request at hand."""

from typing import Any

from chalice.app import AuthRequest, AuthResponse, Blueprint, Request

from chalicelib.http.auth import caller
from chalicelib.http.auth.tokens import BadToken
from chalicelib.wiring import annals
from chalicelib.wiring.telemetry import observed_authorizer

routes = Blueprint(__name__)

ANYBODY: dict[str, Any] = {"content_types": ["*/*"]}
"""A route for anybody. Content types are judged by `requests`, so that the refusal is a problem document too."""


class Unauthorized(Exception):
    """The token proves nothing. API Gateway answers 401 to exactly this text, 500 to any other."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


@routes.authorizer(ttl_seconds=60)
def bearer(auth_request: AuthRequest) -> AuthResponse:
    """Let in whoever has a good token; what they may do is each route's matter."""
    try:
        claims = annals().verifier.verify(auth_request.token)
    except BadToken as refusal:
        raise Unauthorized from refusal
    return AuthResponse(routes=["*"], principal_id=claims.user, context=caller.context(claims))


MEMBERS: dict[str, Any] = {**ANYBODY, "authorizer": bearer}
"""A route for those who have a token."""

# What Lambda calls has to have the authorizer's name.
bearer = observed_authorizer(bearer, Unauthorized)


def request() -> Request:
    """The request at hand; there is one whenever a route's function runs."""
    return routes.current_request
