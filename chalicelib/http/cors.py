"""Cross-origin requests (CORS): lets the web pages of configured origins use the API.

Tokens are sent in a header and never in a cookie, so responses do not allow credentials.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from chalice.app import Chalice, Response

ANY_ORIGIN = "*"
PREFLIGHT = "OPTIONS"
REQUEST_HEADERS = (
    "Accept, Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, Prefer, X-Organization"
)
RESPONSE_HEADERS = "ETag, Idempotent-Replayed, Preference-Applied, Retry-After"
"""Headers that pages may read, beyond those that browsers always allow."""
MAX_AGE_S = 7200
"""How long browsers cache a preflight response. They limit it to this."""


def cors_headers(origins: Collection[str], origin: str | None) -> dict[str, str]:
    """The headers that let a page of `origin` read a response."""
    if not origins:
        return {}
    if ANY_ORIGIN in origins:
        return {"Access-Control-Allow-Origin": ANY_ORIGIN, "Access-Control-Expose-Headers": RESPONSE_HEADERS}
    if origin not in origins:
        return {"Vary": "Origin"}
    return {
        "Vary": "Origin",
        "Access-Control-Allow-Origin": str(origin),
        "Access-Control-Expose-Headers": RESPONSE_HEADERS,
    }


def preflight(origins: Collection[str], origin: str | None, methods: Iterable[str]) -> Response | None:
    """The response to a browser that asks before it sends a request. None if the origin is not allowed."""
    if origin is None or not {ANY_ORIGIN, origin} & set(origins):
        return None
    headers: dict[str, str | list[str]] = {
        "Access-Control-Allow-Methods": ", ".join(sorted(methods)),
        "Access-Control-Allow-Headers": REQUEST_HEADERS,
        "Access-Control-Max-Age": str(MAX_AGE_S),
    }
    return Response("", headers, HTTPStatus.NO_CONTENT)


class CrossOriginChalice(Chalice):
    """A Chalice app that handles cross-origin requests on Lambda. The embedded server does so in its gateway."""

    def __init__(self, origins: Callable[[], Collection[str]], **options: Any) -> None:
        super().__init__(**options)
        self._origins = origins

    def __call__(self, event: Any, context: Any) -> dict[str, Any]:
        origins = self._origins()
        origin = _origin(event.get("headers") or {})
        allowed = None
        if event.get("httpMethod") == PREFLIGHT:
            allowed = preflight(origins, origin, self.routes.get(event.get("resource"), ()))
        answer: dict[str, Any] = super().__call__(event, context) if allowed is None else allowed.to_dict()
        return {**answer, "headers": {**answer.get("headers", {}), **cors_headers(origins, origin)}}


def _origin(headers: Mapping[str, str]) -> str | None:
    return next((value for name, value in headers.items() if name.lower() == "origin"), None)
