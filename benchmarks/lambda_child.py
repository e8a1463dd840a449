"""One process as Lambda runs it: `cold` answers a first request, `warm` many, both as Annals.

Beside them `hello` answers one as the smallest app of Chalice that has a client of DynamoDB, `boto3` only makes that.

Nothing of ours is imported before the clock runs. Prints CPU milliseconds, and how many calls they were.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

CALLS = 300
EVENTS = 20


def main() -> None:
    """Measure one of them."""
    what, request = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps({"boto3": _boto3, "hello": _hello, "cold": _cold, "warm": _warm}[what](request)))


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

    _answer(app, event)
    return _ms_since(start)


def _cold(event: dict[str, Any]) -> float:
    start = time.process_time()
    _answer(_handler(), event)
    return _ms_since(start)


def _warm(event: dict[str, Any]) -> float:
    handler = _handler()
    for _ in range(30):
        _answer(handler, event)
    start = time.process_time()
    for _ in range(CALLS):
        _answer(handler, event)
    return _ms_since(start) / CALLS


def _handler() -> Callable[..., Any]:
    import app  # noqa: PLC0415

    handler: Callable[..., Any] = app.app
    return handler


def _answer(handler: Callable[..., Any], event: dict[str, Any]) -> None:
    answer = handler(event, _Context())
    if answer["statusCode"] not in (200, 201):
        raise RuntimeError(f"{answer['statusCode']}: {answer['body'][:300]}")


def _ms_since(start: float) -> float:
    return (time.process_time() - start) * 1000


class _Context:
    """What Lambda tells a function of its invocation."""

    aws_request_id = "00000000-0000-0000-0000-000000000000"
    function_name = "annals-bench"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-central-1:000000000000:function:annals-bench"

    def get_remaining_time_in_millis(self) -> int:
        return 29_000


if __name__ == "__main__":
    main()
