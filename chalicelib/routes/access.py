"""Who may come in: the authorizer, and the request at hand."""

from typing import Any

from chalice.app import AuthRequest, AuthResponse, Blueprint, Request

from chalicelib.api import callers
from chalicelib.api.tokens import BadToken
from chalicelib.wiring import annals

routes = Blueprint(__name__)

ANYBODY: dict[str, Any] = {"content_types": ["*/*"]}
"""A route for anybody. Content types are judged by `requests`, so that the refusal is a problem document too."""


@routes.authorizer(ttl_seconds=60)
def bearer(auth_request: AuthRequest) -> AuthResponse:
    """Let in whoever has a good token; what they may do is each route's matter."""
    try:
        claims = annals().verifier.verify(auth_request.token)
    except BadToken as refusal:
        # API Gateway answers 401 to exactly this text, 500 to any other.
        raise Exception("Unauthorized") from refusal
    return AuthResponse(routes=["*"], principal_id=claims.user, context=callers.context(claims))


MEMBERS: dict[str, Any] = {**ANYBODY, "authorizer": bearer}
"""A route for those who have a token."""


def request() -> Request:
    """The request at hand; there is one whenever a route's function runs."""
    return routes.current_request
