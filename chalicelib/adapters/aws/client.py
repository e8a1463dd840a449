"""A client for one AWS service, with retries. All calls of Annals are safe to repeat."""

import platform
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final

from pydantic_core import from_json, to_json

from chalicelib import __version__
from chalicelib.adapters.aws import environment
from chalicelib.adapters.aws.connection_pool import TRANSPORT_ERRORS, ConnectionPool, Response, Transport
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.aws.retry_budget import RetryBudget
from chalicelib.adapters.aws.sigv4 import Credentials, Scope, sign
from chalicelib.adapters.aws.time_budget import remaining_s
from chalicelib.domain.backoff import Backoff
from chalicelib.domain.errors import Unavailable

USER_AGENT: Final = f"annals/{__version__} python/{platform.python_version()}"
MAX_ATTEMPTS = 3
ATTEMPT_TIMEOUT_S = 3.0
MIN_TIMEOUT_S = 0.01
CALL_TIMEOUT_S = 12.0
"""Timeout for all attempts and the pauses between them."""
BACKOFF: Final = Backoff(initial_s=0.1)
THROTTLED_BACKOFF: Final = Backoff(initial_s=1.0)
"""Longer, because AWS counts consumed capacity per second."""


@dataclass(frozen=True, slots=True)
class Service:
    """An AWS service with a JSON protocol."""

    name: str
    """For messages."""
    signing_name: str
    """In signatures, host names and environment variables."""
    target: str
    """Prefix of the operation in the `x-amz-target` header."""
    version: str
    """Of the JSON protocol."""


DYNAMODB: Final = Service("DynamoDB", "dynamodb", "DynamoDB_20120810", "1.0")
SQS: Final = Service("SQS", "sqs", "AmazonSQS", "1.0")
GLUE: Final = Service("Glue", "glue", "AWSGlue", "1.1")
EVENTBRIDGE: Final = Service("EventBridge", "events", "AWSEvents", "1.1")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Timeouts, number of attempts and backoff of a call."""

    max_attempts: int = MAX_ATTEMPTS
    attempt_timeout_s: float = ATTEMPT_TIMEOUT_S
    call_timeout_s: float = CALL_TIMEOUT_S
    backoff: Backoff = BACKOFF
    throttled_backoff: Backoff = THROTTLED_BACKOFF


DEFAULT_RETRY_POLICY = RetryPolicy()


class Client:
    """Implements `ServiceClient` over HTTP. Thread-safe."""

    def __init__(
        self,
        service: Service,
        transport: Transport,
        region: str,
        credentials: Callable[[], Credentials],
        on_retry: Callable[[], None] = lambda: None,
        retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = service
        self._transport = transport
        self._scope = Scope(region, service.signing_name)
        self._credentials = credentials
        self._on_retry = on_retry
        self._retry_policy = retry_policy
        self._retry_budget = RetryBudget()
        self._sleep = sleep

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        body, policy, name = to_json(params), self._retry_policy, self._service.name
        time_s = min(policy.call_timeout_s, remaining_s())
        if time_s <= 0:
            raise Unavailable(f"{name} was not called: {operation}: the time for this request is used up")
        retries, deadline = 0, time.monotonic() + time_s
        failure: Exception
        reason: str
        while True:
            backoff = policy.backoff
            try:
                # After a pause that was longer than planned, the deadline may have passed.
                timeout_s = max(min(policy.attempt_timeout_s, deadline - time.monotonic()), MIN_TIMEOUT_S)
                content = self._attempt(operation, body, timeout_s)
                self._retry_budget.record_success(retries)
                return content
            except ServiceError as error:
                if not error.is_retryable:
                    raise
                failure, reason = error, f"is temporarily unavailable: {error}"
                if error.is_throttling:
                    backoff = policy.throttled_backoff
            except TRANSPORT_ERRORS as error:
                failure, reason = error, f"cannot be reached: {operation}: {error}"
            # Full jitter, so that clients that failed together do not retry together.
            delay_s = backoff.delay_s(retries, jitter=random.random())
            retries += 1
            if retries == policy.max_attempts or time.monotonic() + delay_s >= deadline:
                raise Unavailable(f"{name} {reason}") from failure
            if not self._retry_budget.take():
                raise Unavailable(f"{name} {reason}; not retried, because many other calls failed, too") from failure
            self._on_retry()
            self._sleep(delay_s)

    def close(self) -> None:
        self._transport.close()

    def _attempt(self, operation: str, body: bytes, timeout_s: float) -> dict[str, Any]:
        headers = {
            "content-type": f"application/x-amz-json-{self._service.version}",
            "host": self._transport.host,
            "x-amz-target": f"{self._service.target}.{operation}",
        }
        signed_headers = sign(headers, body, self._credentials(), self._scope, time.time())
        # Not signed, because proxies may change it.
        response = self._transport.post({**signed_headers, "user-agent": USER_AGENT}, body, timeout_s)
        if response.status != HTTPStatus.OK:
            raise _service_error(operation, response)
        return _parse_json(response)


def create_client(
    service: Service,
    endpoint: str | None = None,
    region: str | None = None,
    on_retry: Callable[[], None] = lambda: None,
    retry_policy: RetryPolicy | None = None,
) -> Client:
    """A client configured by the environment. It calls `on_retry` before each retry."""
    region = region or environment.region()
    url = endpoint or environment.endpoint(service.signing_name, region)
    transport = ConnectionPool(url, environment.proxy(url))
    credentials = environment.credentials_provider()
    return Client(service, transport, region, credentials, on_retry, retry_policy or DEFAULT_RETRY_POLICY)


def _service_error(operation: str, response: Response) -> ServiceError:
    try:
        content = _parse_json(response)
    except HTTPException:
        # A proxy or load balancer answered, not the service.
        content = {}
    code = str(content.get("__type", "")).rpartition("#")[2]
    return ServiceError(operation, response.status, code, content, response.request_id)


def _parse_json(response: Response) -> dict[str, Any]:
    """Parse the body, which may be empty. Raises `HTTPException` if it is not a JSON object."""
    try:
        content = from_json(response.content or b"{}")
    except ValueError as failure:
        raise HTTPException("the response is not valid JSON") from failure
    if not isinstance(content, dict):
        raise HTTPException("the response is not a JSON object")
    return content
