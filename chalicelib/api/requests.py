"""Requests: parsed once, checked at the edge, told what is wrong with them."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from chalice.app import Request
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails, from_json

from chalicelib.domain.appends import AppendCondition, idempotency_key_checked
from chalicelib.domain.durations import Duration
from chalicelib.domain.errors import BadInput, UnsupportedMediaType
from chalicelib.domain.event_types import Pattern
from chalicelib.domain.events import Key, NewEvent
from chalicelib.domain.ids import EventId, Id
from chalicelib.domain.model import Model

M = TypeVar("M", bound=BaseModel)

MOST_PROBLEMS = 5


class AppendRequest(Model):
    """The body of `POST /events`."""

    events: tuple[NewEvent, ...]
    condition: AppendCondition | None = None


class PublishRequest(AppendRequest):
    """What the Lambda function `publish` is invoked with."""

    org: str
    idempotency_key: Annotated[str, AfterValidator(idempotency_key_checked)] | None = Field(
        None, alias="idempotencyKey"
    )


class QueuedRequest(Model):
    """The body of a message in the ingest queue; its group says for which organization."""

    events: tuple[NewEvent, ...]


def _not_zero(limit: int) -> int:
    if limit == 0:
        raise ValueError("Invalid limit=0; a positive limit is the oldest first, a negative one the newest first")
    return limit


class FeedParameters(Model):
    """The query of `GET /events`."""

    types: tuple[Pattern, ...] | None = None
    keys: tuple[Key, ...] | None = None
    after: EventId = 0
    timeout: Duration = 0.0
    limit: Annotated[int, Field(ge=-1_000_000, le=1_000_000), AfterValidator(_not_zero)] | None = None


class ServerParameters(Model):
    """The query or body of `/events/server`."""

    server: Annotated[int, Field(ge=1)] | None = None
    last_event_id: Id | None = Field(None, alias="lastEventId")
    max_results: Annotated[int, Field(ge=0)] | None = Field(None, alias="maxResults")


def body(model: type[M], request: Request) -> M:
    """The request's JSON body as `model`."""
    content_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise UnsupportedMediaType(f"the body must be application/json, not {content_type[:80]}")
    return json(model, request.raw_body)


def query_or_body(model: type[M], request: Request) -> M:
    """The parameters of a query that may be asked with GET or with POST."""
    return query(model, request) if request.method == "GET" else body(model, request)


def idempotency_key(request: Request) -> str | None:
    """The request's `Idempotency-Key`, if it has one."""
    key = request.headers.get("idempotency-key")
    return None if key is None else idempotency_key_checked(key)


def json(model: type[M], text: bytes | str) -> M:
    """JSON text as `model`; NaN and Infinity are not JSON."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as failure:
        raise BadInput(f"the body is no JSON: {failure}") from failure
    return checked(model, value)


def query(model: type[M], request: Request) -> M:
    """The request's query string as `model`; only list parameters may repeat."""
    given: Mapping[str, list[str]] = request.to_original_event().get("multiValueQueryStringParameters") or {}
    values: dict[str, object] = {}
    for name, texts in given.items():
        if _is_list(model, name):
            values[name] = texts
        elif len(texts) > 1:
            raise BadInput(f"parameter '{name}' may be given once, not {len(texts)} times")
        else:
            values[name] = texts[0]
    return checked(model, values)


def checked(model: type[M], value: object) -> M:
    """`value` as `model`, or what is wrong with it."""
    try:
        return model.model_validate(value)
    except ValidationError as failure:
        raise BadInput(explained(failure)) from failure


def explained(failure: ValidationError) -> str:
    """What is wrong, in words, the first few places."""
    errors = failure.errors(include_url=False, include_context=False)
    told = "; ".join(_explained(error) for error in errors[:MOST_PROBLEMS])
    more = len(errors) - MOST_PROBLEMS
    return f"{told}; and {more} more" if more > 0 else told


def _explained(error: ErrorDetails) -> str:
    place = ".".join(str(part) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            message = "unknown field"
        case "missing":
            message = "missing"
        case "string_pattern_mismatch":
            message = f"subtype '{str(error['input'])[:80]}' must not be empty nor contain '?', '*' or '/'"
    return f"{place}: {message}" if place else message


def _is_list(model: type[BaseModel], name: str) -> bool:
    annotation = model.model_fields[name].annotation if name in model.model_fields else None
    return "tuple" in str(annotation)
