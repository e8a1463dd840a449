"""Authentication of requests, by the Chalice authorizer or by middleware, and access to the current request."""

from collections.abc import Callable, Mapping
from typing import Any

from chalice.app import AuthRequest, AuthResponse, Blueprint, Request, Response

from chalicelib.http.auth import caller
from chalicelib.http.auth.tokens import BadToken, Claims
from chalicelib.http.problems import handle_errors, unauthorized
from chalicelib.wiring import get_components
from chalicelib.wiring.telemetry import instrument_authorizer, record_caller

Middleware = Callable[[Request, Callable[[Request], Response]], Response]

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


def verify(authorization: str) -> Claims | None:
    """The claims of a valid token. An invalid one is counted. Raises `Unavailable` if the issuer does not respond."""
    components = get_components()
    try:
        return components.auth.verifier.verify(authorization)
    except BadToken:
        components.measure("RefusedTokens")
        return None


@routes.authorizer(ttl_seconds=60)
def bearer(auth_request: AuthRequest) -> AuthResponse | dict[str, Any]:
    """Accept every valid token. The routes check the caller's rights.

    Raises `Unavailable` if the token cannot be verified now. API Gateway then returns 503, and caches nothing.
    """
    claims = verify(auth_request.token)
    if claims is None:
        return DENY
    return AuthResponse(routes=["*"], principal_id=claims.user, context=caller.authorizer_context(claims))


AUTHENTICATED: dict[str, Any] = {**PUBLIC, "authorizer": bearer}
"""Options of routes that require a token."""

# Chalice deploys the function with the authorizer's name, so the instrumented one must have it.
bearer = instrument_authorizer(bearer)


def token_verifier(app_routes: Mapping[str, Mapping[str, Any]]) -> Middleware:
    """Middleware that verifies tokens with TOKEN_VERIFICATION=functions, as the authorizer does otherwise.

    `app_routes` are the entries of the Chalice app by path and method. Those with an authorizer require a token.
    """

    @handle_errors
    def verify_token(request: Request, get_response: Callable[[Request], Response]) -> Response:
        entry = app_routes.get(request.path, {}).get(request.method)
        if not get_components().settings.verifies_tokens or entry is None or entry.authorizer is None:
            return get_response(request)
        claims = verify(request.headers.get("authorization", ""))
        if claims is None:
            return unauthorized()
        request.context["authorizer"] = caller.authorizer_context(claims)
        record_caller(request)
        return get_response(request)

    return verify_token


def current_request() -> Request:
    return routes.current_request
