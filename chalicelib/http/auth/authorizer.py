"""The Chalice authorizer, and access to the current request."""

from typing import Any

from chalice.app import AuthRequest, AuthResponse, Blueprint, Request

from chalicelib.http.auth import caller
from chalicelib.http.auth.tokens import BadToken
from chalicelib.wiring import get_components
from chalicelib.wiring.telemetry import instrument_authorizer

routes = Blueprint(__name__)

PUBLIC: dict[str, Any] = {"content_types": ["*/*"]}
"""Options of public routes. Chalice accepts all content types, so that `requests` can return a problem document."""


DENY: dict[str, Any] = {
    "principalId": "unknown",
    "policyDocument": {
        "Version": "2012-10-17",
        "Statement": [{"Action": "execute-api:Invoke", "Effect": "Deny", "Resource": "*"}],
    },
}
"""The result for an invalid token: the gateway returns 401. An exception would count as a failure of the function."""


@routes.authorizer(ttl_seconds=60)
def bearer(auth_request: AuthRequest) -> AuthResponse | dict[str, Any]:
    """Accept every valid token. The routes check the caller's rights."""
    try:
        claims = get_components().auth.verifier.verify(auth_request.token)
    except BadToken:
        return DENY
    return AuthResponse(routes=["*"], principal_id=claims.user, context=caller.authorizer_context(claims))


AUTHENTICATED: dict[str, Any] = {**PUBLIC, "authorizer": bearer}
"""Options of routes that require a token."""

# Chalice deploys the function with the authorizer's name, so the instrumented one must have it.
bearer = instrument_authorizer(bearer)


def current_request() -> Request:
    return routes.current_request
