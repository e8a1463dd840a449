"""The gateway: plays API Gateway for the Chalice app in this process.

It routes, asks the authorizer, and hands each request over as the event that Lambda would get. So the app is the only
definition of the API, here as on AWS.
"""

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, unquote

from chalice.app import CaseInsensitiveMapping, Chalice, Request, Response
from chalice.local import LocalChalice

from chalicelib.http import problems
from infra.server.gateway.router import Routes

TOKENS_REMEMBERED = 1_000
TOKEN_S = 60.0
"""As long as API Gateway remembers what the authorizer said."""

_METHOD_ARN = "arn:aws:execute-api:local:000000000000:embedded/api/ANY/"


PROMPT = frozenset({"/events", "/events/{vocabulary}"})
"""Where POST appends, which takes no longer than writing does, unless ..."""
PROMPT_BYTES = 64 * 1024
"""... there is much to parse ..."""
SLOW = b'"condition"'
"""... or far to look back ..."""
LOOKS_FIRST = "/events/job"
"""... or to see first what is known of a job."""


class HttpRequest(NamedTuple):
    """A request as it came over the wire."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    version: str = "1.1"


class Unauthorized(Exception):
    """The authorizer did not let the caller in."""


class Gateway:
    """Answers HTTP requests with the Chalice app, from many threads at once."""

    def __init__(self, app: Chalice) -> None:
        # Only this subclass keeps `current_request` apart for each thread.
        app.__class__ = LocalChalice
        self._app = app
        self._routes = Routes(app.routes)
        self._callers: dict[str, tuple[float, dict[str, str]]] = {}

    def is_prompt(self, request: HttpRequest) -> bool:
        """Tell whether `answer` will take no longer than a write does."""
        if request.method != "POST" or len(request.body) > PROMPT_BYTES or SLOW in request.body:
            return False
        if self._remembered(request.headers.get("authorization", "")) is None:
            return False  # an issuer may have to be asked for its keys
        path = request.target.partition("?")[0]
        found = self._routes.find(path)
        return found is None or (found.pattern in PROMPT and path != LOOKS_FIRST)

    def answer(self, request: HttpRequest) -> Response:
        """The app's answer; whoever waits for it settles one for later, and takes the steps of one that has to wait."""
        path, _, query = request.target.partition("?")
        found = self._routes.find(path)
        if found is None:
            return problems.problem(HTTPStatus.NOT_FOUND, f"there is nothing at {path[:200]}")
        methods = self._app.routes[found.pattern]
        entry = methods.get(request.method)
        if entry is None:
            allowed = ", ".join(sorted(methods))
            detail = f"{request.method} is not possible here, only {allowed}"
            return problems.problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers={"Allow": allowed})
        context: dict[str, Any] = {"resourcePath": found.pattern, "httpMethod": request.method, "path": path}
        if entry.authorizer is not None:
            try:
                context["authorizer"] = self._caller(entry.authorizer, request.headers.get("authorization", ""))
            except Unauthorized:
                detail = "this needs a header 'Authorization: Bearer <token>' with a valid token"
                return problems.problem(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})
        event = {
            "resource": found.pattern,
            "path": unquote(path) if "%" in path else path,
            "httpMethod": request.method,
            "headers": None,
            "multiValueQueryStringParameters": _parameters(query),
            "pathParameters": found.parameters,
            "stageVariables": None,
            "requestContext": context,
            "body": request.body,
            "isBase64Encoded": False,
        }
        # The view itself: it answers whatever happens, and what else Chalice does is for API Gateway's sake.
        seen = Request(event)
        seen.headers = cast(CaseInsensitiveMapping, request.headers)  # their names are in small letters, as we ask for
        self._app.current_request = seen
        answer: Response = entry.view_function(**{name: found.parameters[name] for name in entry.view_args})
        return answer

    def _caller(self, authorizer: Any, authorization: str) -> dict[str, str]:
        """What the authorizer says of the token, remembered for a while as API Gateway does."""
        known = self._remembered(authorization)
        if known is not None:
            return known
        try:
            said = authorizer({"type": "TOKEN", "authorizationToken": authorization, "methodArn": _METHOD_ARN}, None)
        except Exception as refusal:
            raise Unauthorized from refusal
        context: dict[str, str] = said["context"]
        if len(self._callers) >= TOKENS_REMEMBERED:
            self._callers.clear()
        left_s = min(int(context["expires"]), 2**53) - time.time()
        self._callers[authorization] = (time.monotonic() + min(TOKEN_S, left_s), context)
        return context

    def _remembered(self, authorization: str) -> dict[str, str] | None:
        """What the authorizer said a moment ago, unless the token has ended meanwhile."""
        good_until, context = self._callers.get(authorization, (0.0, None))
        return context if time.monotonic() < good_until else None


def _parameters(query: str) -> dict[str, list[str]] | None:
    if not query:
        return None
    parameters: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        parameters.setdefault(name, []).append(value)
    return parameters
