"""Transports for tests: to moto in this process, or to prepared responses.

Each request is validated against the API description in the SDK.
"""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from botocore.awsrequest import AWSRequest
from botocore.session import get_session
from botocore.validate import ParamValidator
from moto.core.models import botocore_stubber

from chalicelib.adapters.aws.client import Client, RetryPolicy, Service
from chalicelib.adapters.aws.connection_pool import Response, Transport
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.aws.sigv4 import Credentials
from tests.torture.stores import REGION

NO_RETRIES = RetryPolicy(max_attempts=1)
TEST_CREDENTIALS = Credentials("testing", "testing")


def create_test_client(transport: Transport, service: Service, retry_policy: RetryPolicy = NO_RETRIES) -> Client:
    """A client with test credentials. By default it does not retry."""
    return Client(service, transport, REGION, lambda: TEST_CREDENTIALS, retry_policy=retry_policy, sleep=lambda _: None)


class MotoTransport:
    """A transport to a service of moto. Needs `mock_aws`."""

    def __init__(self, service: Service) -> None:
        self.host = f"{service.signing_name}.{REGION}.amazonaws.com"
        self._service = service

    def post(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Response:
        del timeout_s
        assert botocore_stubber.enabled, "use mock_aws"
        _validate_request(self._service, headers, body)
        request: Any = AWSRequest("POST", f"https://{self.host}/", headers, body).prepare()
        status, _, content = botocore_stubber.process_request(request) or (404, {}, "")
        return Response(status, content.encode() if isinstance(content, str) else content)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class ExpectedCall:
    """An expected call and its response."""

    operation: str
    params: Mapping[str, Any] | None
    """None matches all parameters."""
    response: Response


class ScriptedTransport:
    """A transport that expects calls in order and sends prepared responses."""

    host = "aws.example"

    def __init__(self, service: Service) -> None:
        self._service = service
        self._expected: deque[ExpectedCall] = deque()

    def expect(self, operation: str, response: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> None:
        """Expect a call and send this response."""
        self._expected.append(ExpectedCall(operation, params, Response(200, json.dumps(response).encode())))

    def expect_error(self, operation: str, code: str, message: str = "no", status: int = 400, **more: Any) -> None:
        """Expect a call and send an error response. `more` are further fields of it."""
        content = {"__type": f"com.amazonaws.service.version#{code}", "message": message, **more}
        self._expected.append(ExpectedCall(operation, None, Response(status, json.dumps(content).encode())))

    def post(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Response:
        del timeout_s
        operation, params = _validate_request(self._service, headers, body)
        expected = self._expected.popleft()
        assert (operation, expected.params or params) == (expected.operation, params)
        return expected.response

    def close(self) -> None:
        assert not self._expected, "not all expected calls were made"


class RecordingClient:
    """A `ServiceClient` that records its calls."""

    def __init__(self, client: ServiceClient) -> None:
        self.calls = CallList()
        self._client = client

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        # A copy, because callers may reuse the dict.
        self.calls.append((operation, dict(params)))
        return self._client.call(operation, params)


class CallList(list[tuple[str, Any]]):
    """Operations with their parameters."""

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self]


def _validate_request(service: Service, headers: Mapping[str, str], body: bytes) -> tuple[str, Any]:
    """Check a request and return its operation and parameters."""
    target, _, operation = headers["x-amz-target"].partition(".")
    assert headers["content-type"] == f"application/x-amz-json-{service.version}"
    assert target == service.target
    params = json.loads(body)
    report = ParamValidator().validate(params, _model(service.signing_name).operation_model(operation).input_shape)
    assert not report.has_errors(), report.generate_report()
    return operation, params


@cache
def _model(service: str) -> Any:
    return get_session().get_service_model(service)
