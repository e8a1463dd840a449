"""Run functions as Lambda does, and parse the log lines and metrics that they write."""

import json
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pytest

import app
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.http.auth.authorizer import bearer

UNITS = {"Count", "Milliseconds"}
COMMON_DIMENSIONS = ["stack"]
"""Dimensions of all metrics."""
FUNCTION = "annals-test"
MEMBER = {
    "user": "anna",
    "organizations": '["acme"]',
    "groups": '["publishers", "readers", "admins"]',
    "expires": "4102444800",
}


@dataclass(frozen=True)
class Context:
    """The context that Lambda passes to a function."""

    aws_request_id: str = "lambda-1"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@dataclass(frozen=True)
class Output:
    """Captured output of functions."""

    text: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def log(self) -> list[dict[str, Any]]:
        """Log lines, without metrics."""
        return [line for line in self.lines if "_aws" not in line]

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics without dimensions of their own, summed."""
        totals: dict[str, float] = {}
        for line in self.lines:
            for name, value in _values(line).items() if COMMON_DIMENSIONS in _dimensions(line) else ():
                totals[name] = totals.get(name, 0) + value
        return totals

    @property
    def metrics_by_dimension(self) -> dict[tuple[str, ...], dict[str, float]]:
        """Metrics by the values of their own dimensions."""
        return {
            tuple(line[name] for name in names if name not in COMMON_DIMENSIONS): _values(line)
            for line in self.lines
            for names in _dimensions(line)
            if names != COMMON_DIMENSIONS
        }


def request(method: str, path: str, body: object = None, **more: Any) -> dict[str, Any]:
    """A request as API Gateway passes it to the function."""
    context = {
        "resourcePath": path,
        "httpMethod": method,
        "path": path,
        "requestId": more.get("request_id", "gateway-1"),
    }
    return {
        "resource": path,
        "path": path,
        "httpMethod": method,
        "headers": {"content-type": "application/json", **more.get("headers", {})},
        "multiValueQueryStringParameters": {name: [value] for name, value in more.get("query", {}).items()} or None,
        "pathParameters": more.get("path_parameters"),
        "stageVariables": None,
        "requestContext": {**context, "authorizer": more.get("member", MEMBER)},
        "body": body if isinstance(body, str | None) else json.dumps(body),
        "isBase64Encoded": False,
    }


def message(body: str, receives: int = 1, group: str = "acme", sent_ms: int | None = None) -> dict[str, Any]:
    """An SQS event with one message, by default sent now."""
    attributes = {
        "SentTimestamp": str(time.time_ns() // 1_000_000 if sent_ms is None else sent_ms),
        "ApproximateReceiveCount": str(receives),
        "ApproximateFirstReceiveTimestamp": "1573251510801",
        "SequenceNumber": "18849496460467696384",
        "MessageGroupId": group,
    }
    return {"Records": [{"messageId": "m1", "receiptHandle": "r1", "body": body, "attributes": attributes}]}


def authorize(token: str) -> dict[str, str]:
    """The event of the authorizer."""
    return {"type": "TOKEN", "authorizationToken": token, "methodArn": "arn:aws:execute-api:eu-central-1:1:a/api/GET/"}


class Lambda:
    """Calls functions, and records their exceptions as Lambda does."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.raised: list[str] = []
        """Exceptions, as Lambda logs them and returns them to the caller."""

    def api(self, event: Mapping[str, Any], context: Context | None = None) -> Any:
        return self.call(app.app, event, context)

    def authorizer(self, token: str) -> Any:
        return self.call(bearer, authorize(token))

    def call(self, function: Callable[..., Any], event: Mapping[str, Any], context: Context | None = None) -> Any:
        """Call a function. Returns None if it raises."""
        try:
            return function(event, context or Context())
        except Exception as failure:
            frames = traceback.format_list(traceback.extract_tb(failure.__traceback__))
            self.raised.append("".join([f"{type(failure).__name__}: {failure}\n", *frames]))
            return None

    def read_output(self) -> Output:
        """Output on stdout and stderr since the last call."""
        captured = self._capsys.readouterr()
        return Output(captured.out + captured.err)


class FailingClient:
    """A `ServiceClient` in which an operation fails, always or a number of times."""

    def __init__(
        self, client: ServiceClient, operation: str, make: Callable[[], Exception], times: int | None = None
    ) -> None:
        self._client = client
        self._operation = operation
        self._failures = repeat(make) if times is None else repeat(make, times)

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        make = next(self._failures, None) if operation == self._operation else None
        if make is not None:
            raise make()
        return self._client.call(operation, params)


def check_embedded_metrics(line: Mapping[str, Any]) -> None:
    """Check a line against the specification of CloudWatch's embedded metric format."""
    assert abs(line["_aws"]["Timestamp"] - time.time() * 1000) < 3_600_000
    for directive in line["_aws"]["CloudWatchMetrics"]:
        assert directive.keys() == {"Namespace", "Dimensions", "Metrics"}
        assert directive["Namespace"] == "Annals"
        assert directive["Dimensions"]
        for names in directive["Dimensions"]:
            assert len(names) <= 30
            assert all(isinstance(line[name], str) and line[name] for name in names)
        assert 0 < len(directive["Metrics"]) <= 100
        for metric in directive["Metrics"]:
            assert metric.keys() == {"Name", "Unit"}
            assert metric["Unit"] in UNITS
            values = line[metric["Name"]]
            assert 0 < len(values) <= 100
            assert all(isinstance(value, float) for value in values)


def _dimensions(line: Mapping[str, Any]) -> list[list[str]]:
    return [names for one in line.get("_aws", {}).get("CloudWatchMetrics", ()) for names in one["Dimensions"]]


def _values(line: Mapping[str, Any]) -> dict[str, float]:
    metrics = (
        [metric for one in line["_aws"]["CloudWatchMetrics"] for metric in one["Metrics"]] if "_aws" in line else []
    )
    return {metric["Name"]: sum(line[metric["Name"]]) for metric in metrics}
