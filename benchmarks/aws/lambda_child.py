"""One Lambda process: prints the CPU milliseconds of the mode given on the command line.

`cold` handles the first request of Annals, and `warm` the mean of many. `hello` handles one request in a minimal
Chalice app with a DynamoDB client, and `boto3` only creates that client.

Imports happen inside the functions because their cost is measured.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

WARM_CALLS = 300
EVENTS = 20


def main() -> None:
    mode, request = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps({"boto3": _boto3, "hello": _hello, "cold": _cold, "warm": _warm}[mode](request)))


def _boto3(_: object) -> float:
    start = time.process_time()
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415

    boto3.client("dynamodb")
    return _ms_since(start)


def _hello(event: dict[str, Any]) -> float:
    start = time.process_time()
    import boto3  # noqa: PLC0415
    from chalice.app import Chalice  # noqa: PLC0415

    app = Chalice(app_name="hello")
    boto3.client("dynamodb")

    @app.route("/events", methods=["POST"])
    def hello() -> dict[str, str]:
        return {"hello": "world"}

    _invoke(app, event)
    return _ms_since(start)


def _cold(event: dict[str, Any]) -> float:
    start = time.process_time()
    _invoke(_handler(), event)
    return _ms_since(start)


def _warm(event: dict[str, Any]) -> float:
    handler = _handler()
    for _ in range(30):
        _invoke(handler, event)
    start = time.process_time()
    for _ in range(WARM_CALLS):
        _invoke(handler, event)
    return _ms_since(start) / WARM_CALLS


def _handler() -> Callable[..., Any]:
    import app  # noqa: PLC0415

    handler: Callable[..., Any] = app.app
    return handler


def _invoke(handler: Callable[..., Any], event: dict[str, Any]) -> None:
    response = handler(event, _Context())
    if response["statusCode"] not in (200, 201):
        raise RuntimeError(f"{response['statusCode']}: {response['body'][:300]}")


def _ms_since(start: float) -> float:
    return (time.process_time() - start) * 1000


class _Context:
    """The context object that Lambda passes to a function."""

    aws_request_id = "00000000-0000-0000-0000-000000000000"
    function_name = "annals-bench"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-central-1:000000000000:function:annals-bench"

    def get_remaining_time_in_millis(self) -> int:
        return 29_000


if __name__ == "__main__":
    main()
