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
from chalicelib.http.responses import DATA, DeferredResponse, SuspendableResponse

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
    errors.AlreadyExists: HTTPStatus.CONFLICT,
    errors.KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.SessionTaken: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Busy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ViewsReset: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.CommitsDeleted: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Unwritable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotDelivered: HTTPStatus.BAD_GATEWAY,
    errors.RateLimited: HTTPStatus.BAD_GATEWAY,
    errors.Undeliverable: HTTPStatus.BAD_GATEWAY,
    errors.Unusable: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.LogBroken: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.DamagedRecord: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_TITLES: Mapping[int, str] = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
"""Titles of statuses that Python 3.13 renamed. Clients get the same titles from every Python."""

_log = logging.getLogger("annals")


def handle_errors(view: Callable[P, Response]) -> Callable[P, Response]:
    """Decorate a view so that its exceptions become problem documents."""

    @functools.wraps(view)
    def handling(*args: P.args, **kwargs: P.kwargs) -> Response:
        try:
            response = view(*args, **kwargs)
        except Exception as error:  # every error becomes a response
            return problem_from_exception(error)
        if isinstance(response, SuspendableResponse):
            response.steps = _guard_steps(response.steps)
        return response

    return handling


def resolve(response: DeferredResponse) -> Response:
    """Wait for the outcome of a deferred response and render it. A refusal becomes a problem document."""
    try:
        resolved = response.render(response.future.result())
    except Exception as error:  # every error becomes a response
        resolved = problem_from_exception(error)
    if response.headers:
        resolved.headers = {**resolved.headers, **response.headers}
    return resolved


def _guard_steps(steps: Generator[Any, Any, Response | None]) -> Generator[Any, Any, Response | None]:
    """Run the steps. An error after the first sent piece cannot be reported and only ends the response."""
    try:
        return (yield from steps)
    except Exception as error:  # every error becomes a response
        return problem_from_exception(error)


def problem_from_exception(error: Exception) -> Response:
    """The response to a request that failed. Failures that are not the client's are logged."""
    if not isinstance(error, errors.AnnalsError):
        _log.error("unexpected failure", exc_info=error)
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; the server logged the details")
    if not isinstance(error, errors.Refused):
        _log.warning("%s", safe_description(error))
    return problem_from_error(error)


def problem_from_error(error: errors.AnnalsError) -> Response:
    status = STATUS[type(error)]
    members: dict[str, object] = {}
    if isinstance(error, errors.ConditionFailed):
        members["eventId"] = error.event_id
    if isinstance(error, errors.Forbidden):
        members["error"] = [error.reason]  # clients of push-jobs expect the message here
    return problem(status, str(error), members, {"Retry-After": _retry_after(error)} if status == 503 else {})


def unauthorized() -> Response:
    """The response to a request without a valid token. API Gateway sends the same one after its authorizer."""
    detail = "send a header 'Authorization: Bearer <token>' with a valid token"
    return problem(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})


def _retry_after(error: errors.AnnalsError) -> str:
    # A full disk lasts longer than contention.
    return "5" if isinstance(error, errors.Unwritable) else "1"


def problem(
    status: HTTPStatus,
    detail: str,
    members: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    title = _TITLES.get(status, status.phrase)
    content = {"type": "about:blank", "title": title, "status": status.value, "detail": detail}
    return Response(
        to_json({**content, **(members or {})}).decode(),
        {"Content-Type": "application/problem+json", **DATA, **(headers or {})},
        status.value,
    )
