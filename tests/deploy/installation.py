"""An installation on AWS as far as its functions can tell: each is called as Lambda calls it, and recorded."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import app
from chalicelib import wiring
from chalicelib.adapters.aws.protocol import Calls
from chalicelib.http.auth import authorizer
from chalicelib.http.routes import previews
from infra.deploy.build.route_functions import READER, TESTER, WRITER, function_of
from infra.server import local_tokens
from tests.adapters.channels.queues import brought, delete
from tests.deploy.operations import Recorder
from tests.deploy.stack import Stack

JWT_KEY = "the key of the tests, long enough for HS256"
ORGANIZATIONS = ["acme", "other"]
GROUPS = ["publishers", "readers", "admins"]
PATIENCE_S = 30.0

ROLES = {WRITER: "api_handler", READER: "reader", TESTER: "deliver"}
"""Whose policy a function of the API has."""

Answer = dict[str, Any]
FUNCTIONS: Mapping[str, Callable[[dict[str, Any], Any], Any]] = {
    "bearer": authorizer.bearer,
    **{function.name: getattr(app, function.name) for function in app.app.pure_lambda_functions},
}


class Context:
    """What Lambda says about a call."""

    def get_remaining_time_in_millis(self) -> int:
        """Enough."""
        return 60_000


class Installation:
    """All functions, each in a process of its own as far as it can tell: when another acts, nothing is remembered."""

    def __init__(self, recorder: Recorder, stack: Stack, queues: Calls) -> None:
        self.stack = stack
        self.routes: set[tuple[str, str]] = set()
        """What was asked for, by method and route."""
        self._recorder = recorder
        self._queues = queues
        self._last = ""

    @contextmanager
    def acting(self, function: str) -> Iterator[None]:
        """What is done within the block, `function` does."""
        if function != self._last:
            forget()
        self._last = function
        with self._recorder.acting(function):
            yield

    def call(self, function: str, event: dict[str, Any]) -> Any:
        """Invoke a function."""
        with self.acting(function):
            return FUNCTIONS[function](event, Context())

    def ask(self, method: str, route: str, body: object = None, status: int = 200, **given: Any) -> Answer:
        """Ask the API; each route is answered by the function that is to answer it.

        `given` are `query` and `headers`, both dicts, and what stands in the route's braces.
        """
        self.routes.add((method, route))
        with self.acting(ROLES[function_of(route, method.lower())]):
            answer = app.app(_request(method, route, body, **given), Context())
        assert answer["statusCode"] == status, f"{method} {route}: {answer}"
        is_json = answer["headers"]["Content-Type"].startswith("application/json")
        return json.loads(answer["body"]) if is_json else {}

    def bring(self, again: bool = False) -> list[dict[str, Any]]:
        """Have everything delivered that the outbox brings; if `again`, what fails is brought again at once."""
        url, answers = self.stack.urls["OutboxQueue"], []
        while (event := brought(self._queues, url))["Records"]:
            answer = self.call("deliver", event)
            if again and answer["batchItemFailures"]:
                for record in event["Records"]:
                    record["attributes"]["ApproximateReceiveCount"] = "2"
                self.call("deliver", event)
            delete(self._queues, url, event, [one["itemIdentifier"] for one in answer["batchItemFailures"]])
            answers.append(answer)
        return answers

    def until(self, holds: Callable[[], bool], act: Callable[[], object]) -> None:
        """Act again until something is so: what AWS does takes its time."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline
            act()


def forget() -> None:
    """The next function starts in a new process."""
    wiring.annals.cache_clear()
    app._delivering.cache_clear()
    previews._delivering.cache_clear()


def a_token() -> str:
    """Somebody who may do everything."""
    return local_tokens.token(JWT_KEY, "anna", ORGANIZATIONS, GROUPS)


def grown(*servers: int) -> dict[str, Any]:
    """The log's stream says that these logs have grown."""
    return {
        "Records": [
            {
                "eventName": "INSERT",
                "dynamodb": {"Keys": {"server": {"N": str(server)}}, "SequenceNumber": str(1000 + n)},
            }
            for n, server in enumerate(servers)
        ]
    }


def _request(
    method: str,
    route: str,
    body: object,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    **at: str,
) -> dict[str, Any]:
    """The request as API Gateway hands it over once the authorizer has let it in."""
    path = re.sub(r"\{(\w+)\+?\}", lambda found: at[found[1]], route)
    claims = {"organizations": json.dumps(ORGANIZATIONS), "groups": json.dumps(GROUPS), "expires": "4102444800"}
    return {
        "resource": route,
        "path": path,
        "httpMethod": method,
        "headers": {"Content-Type": "application/json", **(headers or {})},
        "queryStringParameters": dict(query) if query else None,
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()} if query else None,
        "pathParameters": at or None,
        "stageVariables": None,
        "requestContext": {
            "resourcePath": route,
            "httpMethod": method,
            "path": f"/api{path}",
            "authorizer": {"user": "anna", **claims},
        },
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }
