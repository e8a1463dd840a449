"""The gateway: does for the embedded server what API Gateway does on AWS.

It routes, calls the authorizer, and passes each request to the Chalice app as the event that Lambda would get. The app
stays the only definition of the API.

Threads: any thread may call any method. The caches have no lock: a lost update costs one call of the authorizer, or
one append in a worker thread.
"""

import time
from collections.abc import Collection
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qsl, unquote

from chalice.app import CaseInsensitiveMapping, Chalice, Request, Response
from chalice.local import LocalChalice

from chalicelib.http import problems
from chalicelib.http.cors import PREFLIGHT, cors_headers, preflight
from chalicelib.http.responses import DeferredResponse
from infra.server.gateway.router import Route, Router
from infra.server.http.protocol import HttpRequest

MAX_CACHED_TOKENS = 1_000
TOKEN_CACHE_S = 60.0
"""The same time for which API Gateway caches the result of the authorizer."""

_METHOD_ARN = "arn:aws:execute-api:local:000000000000:embedded/api/ANY/"

CONSOLE_PATTERN = "/"
"""The page of the console is in memory. Health checks of containers fetch it, also while all workers are busy."""
CHECK_METHODS = ("GET", "HEAD")
APPEND_PATTERNS = frozenset({"/events", "/events/{vocabulary}"})
JOB_VOCABULARY = "job"
"""Appends of job events read the log first."""
MAX_SERVER_THREAD_BODY_BYTES = 64 * 1024


class Unauthorized(Exception):
    """The authorizer did not accept the token."""


class Gateway:
    """Handles HTTP requests with the Chalice app."""

    def __init__(self, app: Chalice, cors_origins: Collection[str] = ()) -> None:
        # Only this subclass has a `current_request` for each thread.
        app.__class__ = LocalChalice
        self._app = app
        self._cors_origins = cors_origins
        self._router = Router(app.routes)
        self._authorizations: dict[str, tuple[float, dict[str, str]]] = {}
        self._publishers: set[tuple[str, str]] = set()
        """Tokens, each with the header `X-Organization`, that have appended. The components know their organization."""

    def find(self, request: HttpRequest) -> Route | None:
        return self._router.find(request.target.partition("?")[0])

    def can_run_in_server_thread(self, route: Route | None, request: HttpRequest) -> bool:
        """Whether `respond` does not wait for the store, so that it may run in the server thread."""
        if len(request.body) > MAX_SERVER_THREAD_BODY_BYTES:
            return False
        if request.method != "POST":
            return request.method in CHECK_METHODS and route is not None and route.pattern == CONSOLE_PATTERN
        return self._is_queued_append(route, request)

    def _is_queued_append(self, route: Route | None, request: HttpRequest) -> bool:
        """Whether `respond` to a POST only parses the body and queues an append, or finds no route."""
        if self._cached_authorization(request.headers.get("authorization", "")) is None:
            return False  # The authorizer may have to fetch the issuer's keys.
        if route is None:
            return True
        if _publisher(request) not in self._publishers:
            return False  # Looking for an organization may read the whole directory.
        return route.pattern in APPEND_PATTERNS and route.parameters.get("vocabulary") != JOB_VOCABULARY

    def respond(self, route: Route | None, request: HttpRequest) -> Response:
        """The app's response, which may be deferred or in steps."""
        response = self._respond(route, request)
        if isinstance(response, DeferredResponse):
            self._remember(_publisher(request))
        if self._cors_origins:
            origin = request.headers.get("origin")
            response.headers = {**response.headers, **cors_headers(self._cors_origins, origin)}
        return response

    def _respond(self, route: Route | None, request: HttpRequest) -> Response:
        path, _, query = request.target.partition("?")
        if route is None:
            return problems.problem(HTTPStatus.NOT_FOUND, f"there is nothing at {path[:200]}")
        methods = self._app.routes[route.pattern]
        entry = methods.get(request.method)
        if entry is None and request.method == PREFLIGHT:
            allowed_origin = preflight(self._cors_origins, request.headers.get("origin"), methods)
            if allowed_origin is not None:
                return allowed_origin
        if entry is None:
            allowed = ", ".join(sorted(methods))
            detail = f"{request.method} is not allowed here; allowed: {allowed}"
            return problems.problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers={"Allow": allowed})
        context: dict[str, Any] = {"resourcePath": route.pattern, "httpMethod": request.method, "path": path}
        if entry.authorizer is not None:
            try:
                context["authorizer"] = self._authorize(entry.authorizer, request.headers.get("authorization", ""))
            except Unauthorized:
                return problems.unauthorized()
            except Exception as error:  # For example, the issuer's keys are not available.
                return problems.problem_from_exception(error)
        event = {
            "resource": route.pattern,
            "path": unquote(path) if "%" in path else path,
            "httpMethod": request.method,
            "headers": None,
            "multiValueQueryStringParameters": _parse_query(query),
            "pathParameters": route.parameters,
            "stageVariables": None,
            "requestContext": context,
            "body": request.body,
            "isBase64Encoded": False,
        }
        # Call the view function without Chalice's dispatch, which only adapts to API Gateway.
        app_request = Request(event)
        app_request.headers = cast(CaseInsensitiveMapping, request.headers)  # The app only uses lower case names.
        self._app.current_request = app_request
        response: Response = entry.view_function(**{name: route.parameters[name] for name in entry.view_args})
        return response

    def _authorize(self, authorizer: Any, authorization: str) -> dict[str, str]:
        """The authorizer's context for the token. Raises `Unauthorized`, and the authorizer's exceptions."""
        cached = self._cached_authorization(authorization)
        if cached is not None:
            return cached
        policy = authorizer({"type": "TOKEN", "authorizationToken": authorization, "methodArn": _METHOD_ARN}, None)
        if policy["policyDocument"]["Statement"][0]["Effect"] != "Allow":
            raise Unauthorized
        context: dict[str, str] = policy["context"]
        if len(self._authorizations) >= MAX_CACHED_TOKENS:
            self._authorizations.clear()
        remaining_s = min(int(context["expires"]), 2**53) - time.time()
        self._authorizations[authorization] = (time.monotonic() + min(TOKEN_CACHE_S, remaining_s), context)
        return context

    def _remember(self, publisher: tuple[str, str]) -> None:
        if publisher not in self._publishers:
            if len(self._publishers) >= MAX_CACHED_TOKENS:
                self._publishers.clear()
            self._publishers.add(publisher)

    def _cached_authorization(self, authorization: str) -> dict[str, str] | None:
        valid_until, context = self._authorizations.get(authorization, (0.0, None))
        return context if time.monotonic() < valid_until else None


def _publisher(request: HttpRequest) -> tuple[str, str]:
    return request.headers.get("authorization", ""), request.headers.get("x-organization", "")


def _parse_query(query: str) -> dict[str, list[str]] | None:
    if not query:
        return None
    parameters: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        parameters.setdefault(name, []).append(value)
    return parameters
