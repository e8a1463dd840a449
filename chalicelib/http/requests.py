"""Requests: parsed once, checked at the edge, told what is wrong with them."""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, TypeVar

from chalice.app import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from chalicelib.domain.errors import BadInput, NotAcceptable, UnsupportedMediaType
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.event_type import SUBTYPE
from chalicelib.domain.log.append import idempotency_key_checked, refuse_many
from chalicelib.domain.objects.path_query import PathQuery, PathQueryJson
from chalicelib.domain.vocabularies import Vocabulary
from chalicelib.http import responses
from chalicelib.http.parameters import AppendRequest

M = TypeVar("M", bound=BaseModel)

MOST_PROBLEMS = 5
_WORDS = re.compile(r"[\s,;]+")
TOO_MANY_PROBLEMS = 10_000
"""To name only some of so many takes longer than to find them all."""
LONGEST_TEXT = 400


def vocabulary_events(vocabulary: Vocabulary, request: Request) -> AppendRequest:
    """The body of `POST /events/{vocabulary}`: one event in the vocabulary's JSON, or `{"events": […]}` of such."""
    value = _json_body(request)
    if not (isinstance(value, dict) and isinstance(value.get("events"), list)):
        return AppendRequest(events=(_vocabulary_event(vocabulary, value),))
    refuse_many(value["events"])
    events = [_vocabulary_event(vocabulary, one, f"events.{place}") for place, one in enumerate(value["events"])]
    return checked(AppendRequest, {**value, "events": events})


def path_query(request: Request, collection: str) -> PathQuery:
    """Which objects are meant: with GET by the URL's path, with POST by the body."""
    if request.method == "POST" and request.raw_body:
        return body(PathQueryJson, request).query()
    base = request.path.partition("{collection}")[0] + collection
    path: str = request.to_original_event()["path"]
    try:
        return PathQuery.from_uri(path[len(base) :] or "/")
    except ValueError as failure:
        raise BadInput(str(failure)) from failure


def body(model: type[M], request: Request) -> M:
    """The request's JSON body as `model`."""
    return checked(model, _json_body(request))


def json_text(request: Request) -> bytes:
    """The request's body, which says that it is JSON."""
    content_type = request.headers.get("content-type")
    if content_type is not None:
        _check_type(content_type)
    coding = request.headers.get("content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise UnsupportedMediaType(f"the body must be sent as it is, not with Content-Encoding {coding[:80]}")
    text = request.raw_body
    return text.encode() if isinstance(text, str) else text


def body_or_nothing(model: type[M], request: Request) -> M:
    """The request's JSON body as `model`; none at all is an empty one."""
    return body(model, request) if request.raw_body else checked(model, {})


def query_or_body(model: type[M], request: Request) -> M:
    """The parameters of a query that may be asked with GET or with POST."""
    return query(model, request) if request.method == "GET" else body(model, request)


def preferred(request: Request, *offered: str) -> str | None:
    """The content type among `offered` that the client likes best, the first of equals; None if it takes none."""
    ranges = [_media_range(text) for text in request.headers.get("accept", "*/*").lower().split(",")]
    liked = [(_liking(content_type, ranges), content_type) for content_type in offered]
    (quality, _), best = max(liked, key=lambda pair: pair[0])
    return best if quality > 0 else None


def require_acceptable(request: Request, offered: str) -> None:
    """Refuse a client that does not take the only content type there is."""
    if preferred(request, offered) is None:
        raise NotAcceptable(f"this is {offered} only: ask for it with 'Accept: {offered}'")


def last_event_id(request: Request) -> str | None:
    """Where an EventSource that comes back has been, if it says so."""
    return request.headers.get("last-event-id") or None


def idempotency_key(request: Request) -> str | None:
    """The request's `Idempotency-Key`, if it has one."""
    key = request.headers.get("idempotency-key")
    return None if key is None else idempotency_key_checked(key)


def is_brief(request: Request) -> bool:
    """Whether the client prefers an answer without what it has sent itself."""
    preferred = request.headers.get("prefer")
    return preferred is not None and _asks_for_little(preferred)


def json(model: type[M], text: bytes | str) -> M:
    """JSON text as `model`."""
    return checked(model, _parsed(text))


def query(model: type[M], request: Request) -> M:
    """The request's query string as `model`; only list parameters may repeat."""
    given: Mapping[str, list[str]] = request.to_original_event().get("multiValueQueryStringParameters") or {}
    values: dict[str, object] = {}
    for name, texts in given.items():
        if name in _lists(model):
            values[name] = texts
        elif len(texts) > 1:
            raise BadInput(f"parameter '{name}' may be given once, not {len(texts)} times")
        else:
            values[name] = texts[0]
    return checked(model, values)


def checked(model: type[M], value: object) -> M:
    """`value` as `model`, or what is wrong with it."""
    try:
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as failure:
        raise BadInput(explained(failure)) from failure


def explained(failure: ValidationError, *within: str) -> str:
    """What is wrong, in words, the first few places; `within` says where in the request they are."""
    if failure.error_count() > TOO_MANY_PROBLEMS:
        return f"{failure.error_count()} things are wrong with it"
    errors = failure.errors(include_url=False, include_context=False)
    told = "; ".join(_explained(error, within) for error in errors[:MOST_PROBLEMS])
    more = len(errors) - MOST_PROBLEMS
    return f"{told}; and {more} more" if more > 0 else told


@lru_cache(maxsize=64)
def _check_type(content_type: str) -> None:
    name = content_type.partition(";")[0].strip().lower()
    if name != "application/json" and not name.endswith("+json"):
        raise UnsupportedMediaType(f"the body must be application/json, not {name[:80]}")


@lru_cache(maxsize=64)
def _asks_for_little(preferred: str) -> bool:
    return responses.BRIEF in _WORDS.split(preferred.lower())


def _media_range(text: str) -> tuple[str, float]:
    """A part of an Accept header: its range, and how much it is liked."""
    name, *parameters = (part.strip() for part in text.split(";"))
    quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
    try:
        return name, float(quality)
    except ValueError:
        return name, 0.0


def _liking(content_type: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """How much a content type is liked, and how explicitly; the most explicit range counts."""
    names = ("*/*", f"{content_type.partition('/')[0]}/*", content_type)
    found = [(names.index(name), quality) for name, quality in ranges if name in names]
    explicitness, quality = max(found, default=(0, 0.0))
    return quality, explicitness


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _json_body(request: Request) -> Any:
    return _parsed(json_text(request))


def _parsed(text: bytes | str) -> Any:
    """NaN and Infinity are not JSON."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as failure:
        raise BadInput(f"the body is no JSON: {failure}") from failure


def _vocabulary_event(vocabulary: Vocabulary, value: object, *within: str) -> NewEvent:
    try:
        return vocabulary.new_event(value)
    except ValidationError as failure:
        raise BadInput(explained(failure, *within)) from failure


def _explained(error: ErrorDetails, within: tuple[str, ...]) -> str:
    place = ".".join(str(part) for part in (*within, *error["loc"]))
    message = error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            message = "unknown field"
        case "missing":
            message = "missing"
        case "string_pattern_mismatch" if SUBTYPE in message:
            message = f"subtype '{str(error['input'])[:80]}' must not be empty nor contain '?', '*' or '/'"
    return f"{_short(place)}: {_short(message)}" if place else _short(message)


@cache
def _lists(model: type[BaseModel]) -> frozenset[str]:
    """The fields, as they are called on the wire, that are lists."""
    fields = model.model_fields.items()
    return frozenset(field.alias or key for key, field in fields if "tuple" in str(field.annotation))
