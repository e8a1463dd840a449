"""Responses of an operation: JSON, feeds, streams, problems."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from chalicelib.domain.json_schema import JsonSchema
from chalicelib.http.openapi import descriptions
from chalicelib.http.openapi.annotations import RouteDoc
from chalicelib.http.openapi.response_types.push import STREAMS
from chalicelib.http.openapi.schemas import Schemas, ref

JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"
PROBLEM = "application/problem+json"
UNNAMED = "message"
"""The name that clients give to a server-sent event without a name."""

_PROBLEM_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer."},
    503: {"Retry-After": "Seconds to wait before the next attempt."},
}


def success_responses(doc: RouteDoc, schemas: Schemas) -> dict[str, JsonSchema]:
    contents = {status: _json_content(ref(name)) for status, name in doc.responses.items()}
    if doc.feed:
        contents[200] = _feed_content(doc, schemas)
    if doc.stream:
        events = {name: ref(type_.__name__) for name, type_ in _stream_events(doc).items()}
        contents[200] = {EVENT_STREAM: _sse_content(events)}
    for status, media_types in doc.media_types.items():
        contents[status] = {media_type: {"schema": {"type": "string"}} for media_type in media_types}
    return {str(status): _response(status, content, doc) for status, content in sorted(contents.items())}


def problem_response(status: int) -> JsonSchema:
    content: JsonSchema = {PROBLEM: {"schema": {**ref("Problem"), "properties": {"status": {"const": status}}}}}
    if status == HTTPStatus.UNAUTHORIZED:
        content[JSON] = {"schema": ref("GatewayMessage")}
    response: JsonSchema = {"description": descriptions.PROBLEMS[status], "content": content}
    if status in _PROBLEM_HEADERS:
        response["headers"] = _headers(_PROBLEM_HEADERS[status])
    return response


def response_type_names(doc: RouteDoc) -> list[str]:
    return [*doc.responses.values(), *filter(None, [doc.feed])]


def stream_types(doc: RouteDoc) -> list[type]:
    """The types of the data of the server-sent events, if the route is a stream."""
    return list(_stream_events(doc).values())


def _stream_events(doc: RouteDoc) -> Mapping[str, type]:
    return STREAMS[doc.stream] if doc.stream else {}


def _response(status: int, content: JsonSchema, doc: RouteDoc) -> JsonSchema:
    response: JsonSchema = {"description": f"{HTTPStatus(status).phrase}."}
    if content:
        response["content"] = content
    headers = (
        {"Preference-Applied": "The preference from `Prefer` that was applied."} if "Prefer" in doc.headers else {}
    )
    if status == HTTPStatus.OK and "Idempotency-Key" in doc.headers and status not in doc.responses:
        headers["Idempotent-Replayed"] = "`true` if this `Idempotency-Key` was used before. Nothing was written."
    elif status == HTTPStatus.OK and "Idempotency-Key" in doc.headers:
        response["description"] = "Nothing was written: the request had no events, or an earlier request wrote them."
        headers["Idempotent-Replayed"] = "`true` if this `Idempotency-Key` was used before."
    if headers:
        response["headers"] = _headers(headers)
    return response


def _headers(texts: Mapping[str, str]) -> JsonSchema:
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in texts.items()}


def _json_content(schema: JsonSchema) -> JsonSchema:
    return {JSON: {"schema": schema}}


def _feed_content(doc: RouteDoc, schemas: Schemas) -> JsonSchema:
    """A feed in its three formats. Some routes return other JSON as well."""
    item = ref(doc.feed)
    non_empty = schemas.add(f"NonEmptyOf{doc.feed}", _non_empty(item))
    seq = schemas.add(f"EventSeqOf{doc.feed}", {"oneOf": [non_empty, ref("Empty"), ref("Torn")]})
    others = [ref(name) for status, name in doc.responses.items() if status == HTTPStatus.OK]
    return {
        **_json_content({"anyOf": [seq, *others]} if others else seq),
        NDJSON: {"schema": {"description": "Each line.", "anyOf": [item, ref("Torn")]}},
        EVENT_STREAM: _sse_content({"": item, "Torn": ref("Torn")}),
    }


def _non_empty(item: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "description": "The matching events. All events up to `eventId` have been examined. `moreFollows` says whether"
        " the result was cut by the limit or its size. Then continue after `eventId`, or with a negative limit before"
        " the `eventId` of the last event. Only an inbox has `readUpTo`.",
        "properties": {
            "TYPE": {"const": "NonEmpty"},
            "eventId": {"type": "integer", "minimum": 0, "exclusiveMaximum": 2**53},
            "position": {"type": "integer", "minimum": 0},
            "moreFollows": {"type": "boolean"},
            "readUpTo": {"type": "integer", "minimum": 0, "exclusiveMaximum": 2**53},
            "eventSnapshots": {"type": "array", "minItems": 1, "items": item},
        },
        "required": ["TYPE", "eventId", "eventSnapshots"],
    }


def _sse_content(data: Mapping[str, JsonSchema]) -> JsonSchema:
    """Server-sent events by name. An event without data only states the position from which to resume."""
    position = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "maxProperties": 1}
    items = [*(_sse_event(name, schema) for name, schema in data.items()), position]
    return {"schema": {"description": "Each event.", "oneOf": items}}


def _sse_event(name: str, data: JsonSchema) -> JsonSchema:
    properties: dict[str, Any] = {
        "event": {"const": name or UNNAMED},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": JSON, "contentSchema": data},
    }
    required = ["event", "id", "data"] if name else ["id", "data"]
    return {"type": "object", "properties": properties, "required": required}
