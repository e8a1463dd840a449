"""Parse and validate requests. Errors become `BadInput` with a message for the caller."""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, TypeVar

from chalice.app import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from chalicelib.domain.errors import BadInput, NotAcceptable, UnsupportedMediaType
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.event_type import SUBTYPE_REGEX
from chalicelib.domain.log.append import AppendCondition, check_event_count, check_idempotency_key, encode_within_limits
from chalicelib.domain.objects.path_query import PathQuery, PathQueryJson
from chalicelib.domain.vocabularies import Vocabulary
from chalicelib.http import responses
from chalicelib.http.parameters import AppendRequest

try:
    from chalicelib.http.fast_append_parser import parse_simple_append as _parse_simple_append
except ModuleNotFoundError:  # The Lambda package does not contain msgspec.

    def _parse_simple_append(body: bytes) -> tuple[str, ...] | None:
        del body
        return None


M = TypeVar("M", bound=BaseModel)

MAX_LISTED_ERRORS = 5
_SEPARATORS = re.compile(r"[\s,;]+")
MAX_EXPLAINED_ERRORS = 10_000
"""Above this number only the count is reported, because building the error list takes too long."""
MAX_MESSAGE_CHARS = 400


def append_texts(request: Request) -> tuple[tuple[str, ...], AppendCondition | None]:
    """The encoded events and the condition of `POST /events`."""
    body_bytes = json_bytes(request)
    texts = _parse_simple_append(body_bytes)
    if texts is not None:
        return texts, None
    append = parse_json(AppendRequest, body_bytes)
    return encode_within_limits(append.events), append.condition


def vocabulary_events(vocabulary: Vocabulary, request: Request) -> AppendRequest:
    """The body of `POST /events/{vocabulary}`: one event in the vocabulary's JSON, or `{"events": […]}`."""
    value = _json_body(request)
    if not (isinstance(value, dict) and isinstance(value.get("events"), list)):
        return AppendRequest(events=(_vocabulary_event(vocabulary, value),))
    check_event_count(value["events"])
    events = [_vocabulary_event(vocabulary, event, f"events.{index}") for index, event in enumerate(value["events"])]
    return validate(AppendRequest, {**value, "events": events})


def path_query(request: Request, collection: str) -> PathQuery:
    """The requested objects: from the URL's path with GET, from the body with POST."""
    if request.method == "POST" and request.raw_body:
        return body(PathQueryJson, request).query()
    base = request.path.partition("{collection}")[0] + collection
    path: str = request.to_original_event()["path"]
    try:
        return PathQuery.from_uri(path[len(base) :] or "/")
    except ValueError as error:
        raise BadInput(str(error)) from error


def body(model: type[M], request: Request) -> M:
    """The request's JSON body as `model`."""
    return validate(model, _json_body(request))


def json_bytes(request: Request) -> bytes:
    """The request's body, if its headers allow JSON."""
    content_type = request.headers.get("content-type")
    if content_type is not None:
        _check_content_type(content_type)
    _check_content_encoding(request)
    return _raw_bytes(request)


def text_body(request: Request) -> bytes:
    """The request's body as it is. Only POST has one."""
    _check_content_encoding(request)
    return _raw_bytes(request) if request.method == "POST" else b""


def optional_body(model: type[M], request: Request) -> M:
    """The request's JSON body as `model`. No body is the same as `{}`."""
    return body(model, request) if request.raw_body else validate(model, {})


def query_or_body(model: type[M], request: Request) -> M:
    """The parameters of a query: from the query string with GET, from the body with POST."""
    return query(model, request) if request.method == "GET" else body(model, request)


def preferred_type(request: Request, *offered: str) -> str | None:
    """The client's most preferred content type among `offered`, or None if it accepts none of them."""
    ranges = [_media_range(text) for text in request.headers.get("accept", "*/*").lower().split(",")]
    candidates = [(_quality(content_type, ranges), content_type) for content_type in offered]
    (quality, _), best = max(candidates, key=lambda candidate: candidate[0])
    return best if quality > 0 else None


def require_acceptable(request: Request, offered: str) -> None:
    """Raise `NotAcceptable` unless the client accepts the only available content type."""
    if preferred_type(request, offered) is None:
        raise NotAcceptable(f"only {offered} is available; request it with 'Accept: {offered}'")


def last_event_id(request: Request) -> str | None:
    """The position at which an EventSource reconnects."""
    return request.headers.get("last-event-id") or None


def idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    return None if key is None else check_idempotency_key(key)


def prefers_minimal(request: Request) -> bool:
    """Whether the client prefers a response without the events that it sent."""
    preferred = request.headers.get("prefer")
    return preferred is not None and _is_return_minimal(preferred)


def parse_json(model: type[M], text: bytes | str) -> M:
    return validate(model, _decode_json(text))


def query(model: type[M], request: Request) -> M:
    """The request's query string as `model`. Only list parameters may repeat."""
    query_values: Mapping[str, list[str]] = request.to_original_event().get("multiValueQueryStringParameters") or {}
    values: dict[str, object] = {}
    for name, texts in query_values.items():
        if name in _list_fields(model):
            values[name] = texts
        elif len(texts) > 1:
            raise BadInput(f"parameter '{name}' must not be repeated; it was given {len(texts)} times")
        else:
            values[name] = texts[0]
    return validate(model, values)


def validate(model: type[M], value: object) -> M:
    """`value` as `model`. Raises `BadInput` with an explanation."""
    try:
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise BadInput(explain(error)) from error


def explain(validation_error: ValidationError, *within: str) -> str:
    """The first few errors as one message. `within` is the place of the value in the request."""
    if validation_error.error_count() > MAX_EXPLAINED_ERRORS:
        return f"the request has {validation_error.error_count()} errors"
    errors = validation_error.errors(include_url=False, include_context=False)
    listed = "; ".join(_explain_error(error, within) for error in errors[:MAX_LISTED_ERRORS])
    more = len(errors) - MAX_LISTED_ERRORS
    return f"{listed}; and {more} more" if more > 0 else listed


def _raw_bytes(request: Request) -> bytes:
    text = request.raw_body
    return text.encode() if isinstance(text, str) else text


def _check_content_encoding(request: Request) -> None:
    coding = request.headers.get("content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise UnsupportedMediaType(f"the body must not be encoded; Content-Encoding {coding[:80]} is not supported")


@lru_cache(maxsize=64)
def _check_content_type(content_type: str) -> None:
    name = content_type.partition(";")[0].strip().lower()
    if name != "application/json" and not name.endswith("+json"):
        raise UnsupportedMediaType(f"the body must be application/json, not {name[:80]}")


@lru_cache(maxsize=64)
def _is_return_minimal(preferred: str) -> bool:
    return responses.RETURN_MINIMAL in _SEPARATORS.split(preferred.lower())


def _media_range(text: str) -> tuple[str, float]:
    """A media range of an Accept header and its quality."""
    name, *parameters = (part.strip() for part in text.split(";"))
    quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
    try:
        return name, float(quality)
    except ValueError:
        return name, 0.0


def _quality(content_type: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """The quality of a content type and how specific its range is. The most specific range counts."""
    names = ("*/*", f"{content_type.partition('/')[0]}/*", content_type)
    matches = [(names.index(name), quality) for name, quality in ranges if name in names]
    specificity, quality = max(matches, default=(0, 0.0))
    return quality, specificity


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else f"{text[:MAX_MESSAGE_CHARS]}…"


def _json_body(request: Request) -> Any:
    return _decode_json(json_bytes(request))


def _decode_json(text: bytes | str) -> Any:
    # NaN and Infinity are not valid JSON.
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise BadInput(f"the body is not valid JSON: {error}") from error


def _vocabulary_event(vocabulary: Vocabulary, value: object, *within: str) -> NewEvent:
    try:
        return vocabulary.new_event(value)
    except ValidationError as error:
        raise BadInput(explain(error, *within)) from error


def _explain_error(error: ErrorDetails, within: tuple[str, ...]) -> str:
    place = ".".join(str(part) for part in (*within, *error["loc"]))
    message = error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            message = "unknown field"
        case "missing":
            message = "missing"
        case "string_pattern_mismatch" if SUBTYPE_REGEX in message:
            message = f"subtype '{str(error['input'])[:80]}' must not contain '?', '*' or '/'"
    return f"{_truncate(place)}: {_truncate(message)}" if place else _truncate(message)


@cache
def _list_fields(model: type[BaseModel]) -> frozenset[str]:
    """The names of list fields, as in requests."""
    fields = model.model_fields.items()
    return frozenset(field.alias or name for name, field in fields if "tuple" in str(field.annotation))
