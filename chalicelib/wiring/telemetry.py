"""Telemetry of Lambda functions. Elsewhere there is none, and its libraries are not imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from chalice.app import Request

from chalicelib.adapters.aws.time_budget import time_limit
from chalicelib.domain.errors import BadInput, Forbidden
from chalicelib.domain.organizations.organization import check_name
from chalicelib.http.auth.caller import Caller
from chalicelib.settings import Settings

if TYPE_CHECKING:
    from chalicelib.telemetry import FunctionTelemetry

T = TypeVar("T")


@cache
def function_telemetry() -> FunctionTelemetry | None:
    """The telemetry of this process, or None if it is not a Lambda function."""
    settings = Settings.from_environment()
    if not settings.function:
        return None
    from chalicelib.telemetry import FunctionTelemetry  # noqa: PLC0415  (only Lambda functions have Powertools)

    return FunctionTelemetry(settings.function, settings.stack, settings.tracing)


def telemetry_middleware(event: Any, get_response: Callable[[Any], T]) -> T:
    """Chalice middleware for HTTP requests and events of other functions: time limit, logs, metrics and traces."""
    is_request = isinstance(event, Request)
    remaining_ms = getattr(event.lambda_context if is_request else event.context, "get_remaining_time_in_millis", None)
    with nullcontext() if remaining_ms is None else time_limit(remaining_ms() / 1000):
        return _run_with_telemetry(event, get_response)


def instrument_authorizer(authorizer: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
    """Add telemetry to the authorizer, for which Chalice runs no middleware."""

    def handler(event: Any, context: Any) -> T:
        telemetry = function_telemetry()
        if telemetry is None:
            return authorizer(event, context)
        return telemetry.run_invocation(lambda: authorizer(event, context), _request_id(context), None)

    return handler


def record_caller(request: Request) -> None:
    """Add the caller's organization to the logs and the trace of an invocation that has verified the token itself."""
    telemetry = function_telemetry()
    if telemetry is not None:
        telemetry.set_organization(_organization_of_caller(request))


def _run_with_telemetry(event: Any, get_response: Callable[[Any], T]) -> T:
    telemetry = function_telemetry()
    if telemetry is None:
        return get_response(event)
    if isinstance(event, Request):
        request_id = event.context.get("requestId") or _request_id(event.lambda_context)
        organization = _organization_of_caller(event)
    else:
        request_id, organization = _request_id(event.context), _organization_of_event(event.to_dict())
    return telemetry.run_invocation(lambda: get_response(event), request_id, organization)


def _request_id(context: Any) -> str:
    return getattr(context, "aws_request_id", "")


def _organization_of_caller(request: Request) -> str | None:
    """The organization of a request, if the caller is a member. Other callers may name arbitrary ones."""
    try:
        return Caller.from_request(request).organization((request.uri_params or {}).get("org"))
    except Forbidden:
        return None


def _organization_of_event(event: Mapping[str, Any]) -> str | None:
    """The organization that the invoker names, if the name is valid."""
    match event:
        case {"org": str(name)}:
            try:
                return check_name(name)
            except BadInput:
                return None
        case _:
            return None
