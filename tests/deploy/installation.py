"""Calls each function as Lambda does, and records the AWS operations that it uses."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import app
from chalicelib import wiring
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.http.auth import authorizer
from chalicelib.http.routes import previews
from infra.deploy.build.route_functions import READER, TESTER, WRITER, function_for_route
from infra.server import local_tokens
from tests.adapters.channels.queues import delete, receive_batch
from tests.deploy.operations import Recorder
from tests.deploy.stack import HUB, Stack

JWT_KEY = "the key of the tests, long enough for HS256"
ORGANIZATIONS = ["acme", "other"]
GROUPS = ["publishers", "readers", "admins"]
TIMEOUT_S = 30.0

ROLES = {WRITER: "api_handler", READER: "reader", TESTER: "deliver"}
"""The policy that each API function has."""

Answer = dict[str, Any]
FUNCTIONS: Mapping[str, Callable[[dict[str, Any], Any], Any]] = {
    "bearer": authorizer.bearer,
    **{function.name: getattr(app, function.name) for function in app.app.pure_lambda_functions},
}


class Context:
    """The context object of a Lambda invocation."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class Installation:
    """All functions. Caches are dropped between functions, as if each ran in a separate process."""

    def __init__(self, recorder: Recorder, stack: Stack, queues: ServiceClient) -> None:
        self.stack = stack
        self.routes: set[tuple[str, str]] = set()
        """Requested routes by method and path."""
        self._recorder = recorder
        self._queues = queues
        self._last = ""

    @contextmanager
    def acting(self, function: str, *other_roles: str) -> Iterator[None]:
        """Attribute all calls within the block to `function`, and to roles of others that would make the same calls."""
        if function != self._last:
            drop_caches()
        self._last = function
        with self._recorder.acting(function, *other_roles):
            yield

    def refusing(self, operation: str) -> AbstractContextManager[None]:
        """Let AWS refuse all calls of this operation within the block."""
        return self._recorder.refusing(operation)

    def call(self, function: str, event: dict[str, Any]) -> Any:
        with self.acting(function):
            return FUNCTIONS[function](event, Context())

    def request(self, method: str, route: str, body: object = None, status: int = 200, **options: Any) -> Answer:
        """Send an API request to the function that is responsible for the route.

        `options` are `query` and `headers`, both dicts, and the path parameters.
        """
        self.routes.add((method, route))
        with self.acting(ROLES[function_for_route(route, method.lower())], HUB):
            answer = app.app(_request(method, route, body, **options), Context())
        assert answer["statusCode"] == status, f"{method} {route}: {answer}"
        is_json = answer["headers"]["Content-Type"].startswith("application/json")
        return json.loads(answer["body"]) if is_json else {}

    def deliver_all(self, again: bool = False) -> list[dict[str, Any]]:
        """Deliver all messages of the outbox. With `again`, failed batches are delivered once more."""
        url, responses = self.stack.urls["OutboxQueue"], []
        while (event := receive_batch(self._queues, url))["Records"]:
            response = self.call("deliver", event)
            if again and response["batchItemFailures"]:
                for record in event["Records"]:
                    record["attributes"]["ApproximateReceiveCount"] = "2"
                self.call("deliver", event)
            delete(self._queues, url, event, [failure["itemIdentifier"] for failure in response["batchItemFailures"]])
            responses.append(response)
        return responses

    def until(self, holds: Callable[[], bool], act: Callable[[], object]) -> None:
        """Repeat `act` until `holds` returns True."""
        deadline = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < deadline
            act()


def drop_caches() -> None:
    """Drop all caches, as if the next function started in a new process."""
    wiring.get_components.cache_clear()
    app._deliverer.cache_clear()
    previews._deliverer.cache_clear()


def full_token() -> str:
    """A token with all groups."""
    return local_tokens.sign_token(JWT_KEY, "anna", ORGANIZATIONS, GROUPS)


def stream_event(*servers: int) -> dict[str, Any]:
    """A stream event that reports new commits in these logs."""
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
    **path_parameters: str,
) -> dict[str, Any]:
    """The request as API Gateway passes it on after the authorizer."""
    path = re.sub(r"\{(\w+)\+?\}", lambda match: path_parameters[match[1]], route)
    claims = {"organizations": json.dumps(ORGANIZATIONS), "groups": json.dumps(GROUPS), "expires": "4102444800"}
    return {
        "resource": route,
        "path": path,
        "httpMethod": method,
        "headers": {"Content-Type": "application/json", **(headers or {})},
        "queryStringParameters": dict(query) if query else None,
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()} if query else None,
        "pathParameters": path_parameters or None,
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
