"""Watching a Lambda function at work. Elsewhere nothing is watched, and what would do it is not even loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from chalice.app import Request

from chalicelib.adapters.aws.time_budget import within
from chalicelib.domain.errors import BadInput, Forbidden
from chalicelib.domain.organizations.organization import name_checked
from chalicelib.http.auth.caller import Caller
from chalicelib.settings import Settings

if TYPE_CHECKING:
    from chalicelib.telemetry import Watch

T = TypeVar("T")


@cache
def watch() -> Watch | None:
    """What watches this process, if it is a Lambda function."""
    settings = Settings.from_environment()
    if not settings.function:
        return None
    from chalicelib.telemetry import Watch  # noqa: PLC0415  (only Lambda functions have Powertools)

    return Watch(settings.function, settings.tracing)


def observed(event: Any, get_response: Callable[[Any], T]) -> T:
    """Middleware of Chalice: a request, or an event of another function, handled in time and while that is watched."""
    is_request = isinstance(event, Request)
    left_ms = getattr(event.lambda_context if is_request else event.context, "get_remaining_time_in_millis", None)
    with nullcontext() if left_ms is None else within(left_ms() / 1000):
        return _observed(event, get_response)


def _observed(event: Any, get_response: Callable[[Any], T]) -> T:
    watching = watch()
    if watching is None:
        return get_response(event)
    if isinstance(event, Request):
        request_id = event.context.get("requestId") or _request_id(event.lambda_context)
        return watching.during(lambda: get_response(event), request_id, _organization_of_caller(event))
    organization = _organization_named(event.to_dict())
    return watching.during(lambda: get_response(event), _request_id(event.context), organization)


def observed_authorizer(authorizer: Callable[[Any, Any], T], refusal: type[Exception]) -> Callable[[Any, Any], T]:
    """The authorizer as Lambda calls it, which middleware does not see; to raise `refusal` is no failure of it."""

    def handler(event: Any, context: Any) -> T:
        watching = watch()
        if watching is None:
            return authorizer(event, context)
        return watching.during(lambda: authorizer(event, context), _request_id(context), None, refusal)

    return handler


def _request_id(context: Any) -> str:
    return getattr(context, "aws_request_id", "")


def _organization_of_caller(request: Request) -> str | None:
    """The organization that a request is about, if its caller is a member: others name what they like."""
    try:
        return Caller.of(request).organization((request.uri_params or {}).get("org"))
    except Forbidden:
        return None


def _organization_named(event: Mapping[str, Any]) -> str | None:
    """The organization that whoever called the function names, if one can have such a name."""
    match event:
        case {"org": str(name)}:
            try:
                return name_checked(name)
            except BadInput:
                return None
        case _:
            return None
