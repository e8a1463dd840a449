"""What carries requests in tests: to moto in this process, or to answers that a test has written down.

Each request is checked against AWS's own description of its API, as the SDK has it.
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

from chalicelib.adapters.aws.client import Client, Patience, Service
from chalicelib.adapters.aws.connection_pool import Answer, Wire
from chalicelib.adapters.aws.protocol import Calls
from chalicelib.adapters.aws.sigv4 import Credentials
from tests.torture.stores import REGION

ONCE = Patience(attempts=1)
NOBODY = Credentials("testing", "testing")


def client_on(wire: Wire, service: Service, patience: Patience = ONCE) -> Client:
    """A client of nobody's; unless it is told otherwise it tries once."""
    return Client(service, wire, REGION, lambda: NOBODY, patience=patience, pause=lambda _: None)


class Moto:
    """The port `Wire` to a service of moto's, while that is there."""

    def __init__(self, service: Service) -> None:
        self.host = f"{service.signing_name}.{REGION}.amazonaws.com"
        self._service = service

    def exchange(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
        del timeout_s
        assert botocore_stubber.enabled, "there is no moto outside of mock_aws"
        _checked(self._service, headers, body)
        request: Any = AWSRequest("POST", f"https://{self.host}/", headers, body).prepare()
        status, _, content = botocore_stubber.process_request(request) or (404, {}, "")
        return Answer(status, content.encode() if isinstance(content, str) else content)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Expected:
    """A call that is to come, and what to answer."""

    operation: str
    params: Mapping[str, Any] | None
    """None: any."""
    answer: Answer


class Script:
    """The port `Wire` to nowhere: answers in the place of AWS, in order."""

    host = "aws.example"

    def __init__(self, service: Service) -> None:
        self._service = service
        self._expected: deque[Expected] = deque()

    def answers(self, operation: str, answer: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> None:
        """Let the next call be this, and be answered so."""
        self._expected.append(Expected(operation, params, Answer(200, json.dumps(answer).encode())))

    def refuses(self, operation: str, code: str, message: str = "no", status: int = 400, **more: Any) -> None:
        """Let the next call be this, and be refused; `more` is what the refusal says besides."""
        said = {"__type": f"com.amazonaws.of.a.version#{code}", "message": message, **more}
        self._expected.append(Expected(operation, None, Answer(status, json.dumps(said).encode())))

    def exchange(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
        del timeout_s
        operation, params = _checked(self._service, headers, body)
        expected = self._expected.popleft()
        assert (operation, expected.params or params) == (expected.operation, params)
        return expected.answer

    def close(self) -> None:
        assert not self._expected, "not all of it was asked for"


class Noted:
    """The port `Calls`, which remembers what is called."""

    def __init__(self, client: Calls) -> None:
        self.sent = Sent()
        self._client = client

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        # As it is now: whoever calls may go on with the same dict.
        self.sent.append((operation, dict(params)))
        return self._client.call(operation, params)


class Sent(list[tuple[str, Any]]):
    """Operations, each with its parameters."""

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self]


def _checked(service: Service, headers: Mapping[str, str], body: bytes) -> tuple[str, Any]:
    """The operation and its parameters, if they are as AWS wants them."""
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
