"""Errors as problem documents (RFC 9457), with the matching status."""

import functools
import logging
from collections.abc import Callable, Generator, Mapping
from http import HTTPStatus
from typing import Any, ParamSpec

from chalice.app import Response
from pydantic_core import to_json

from chalicelib.domain import errors
from chalicelib.domain.redaction import safe_description
from chalicelib.http.responses import DeferredResponse, Stepwise

P = ParamSpec("P")

STATUS: Mapping[type[errors.AnnalsError], HTTPStatus] = {
    errors.BadInput: HTTPStatus.BAD_REQUEST,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.UnsupportedMediaType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.NotAcceptable: HTTPStatus.NOT_ACCEPTABLE,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.NoSuchOrganization: HTTPStatus.NOT_FOUND,
    errors.Forbidden: HTTPStatus.FORBIDDEN,
    errors.ConditionFailed: HTTPStatus.CONFLICT,
    errors.KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.SessionTaken: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.KeyTaken: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Busy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Unwritable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotDelivered: HTTPStatus.BAD_GATEWAY,
    errors.Undeliverable: HTTPStatus.BAD_GATEWAY,
    errors.Unusable: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.LogBroken: HTTPStatus.INTERNAL_SERVER_ERROR,
}

_log = logging.getLogger("annals")


def handle_errors(view: Callable[P, Response]) -> Callable[P, Response]:
    """`view`, with what it raises turned into an answer."""

    @functools.wraps(view)
    def answering(*args: P.args, **kwargs: P.kwargs) -> Response:
        response = _answered(lambda: view(*args, **kwargs))
        if isinstance(response, Stepwise):
            response.steps = _stepped(response.steps)
        return response

    return answering


def resolve(response: DeferredResponse) -> Response:
    """Wait for the outcome of a deferred response and render it. A refusal becomes a problem document."""
    return _answered(lambda: response.render(response.future.result()))


def _answered(answer: Callable[[], Response]) -> Response:
    try:
        return answer()
    except Exception as failure:
        return _told(failure)


def _stepped(steps: Generator[Any, Any, Response | None]) -> Generator[Any, Any, Response | None]:
    """The steps; who has begun to tell something cannot tell a problem any more, and just ends."""
    try:
        return (yield from steps)
    except Exception as failure:
        return _told(failure)


def _told(failure: Exception) -> Response:
    if not isinstance(failure, errors.AnnalsError):
        _log.error("unexpected failure", exc_info=failure)
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; the server logged the details")
    if not isinstance(failure, errors.Refused):
        _log.warning("%s", safe_description(failure))
    return problem_from_error(failure)


def problem_from_error(error: errors.AnnalsError) -> Response:
    status = STATUS[type(error)]
    members: dict[str, object] = {}
    if isinstance(error, errors.ConditionFailed):
        members["eventId"] = error.event_id
    if isinstance(error, errors.Forbidden):
        members["error"] = [str(error)]  # clients of push-jobs expect the message here
    return problem(status, str(error), members, {"Retry-After": _retry_after(error)} if status == 503 else {})


def _retry_after(error: errors.AnnalsError) -> str:
    # A full disk lasts longer than contention.
    return "5" if isinstance(error, errors.Unwritable) else "1"


def problem(
    status: HTTPStatus,
    detail: str,
    members: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    content = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    return Response(
        to_json({**content, **(members or {})}).decode(),
        {"Content-Type": "application/problem+json", "Cache-Control": "no-store", **(headers or {})},
        status.value,
    )
