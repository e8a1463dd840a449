"""Answers of an operation: JSON, feeds, streams, problems."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from chalicelib.http.openapi import descriptions
from chalicelib.http.openapi.annotations import Description
from chalicelib.http.openapi.answers.push import STREAMS
from chalicelib.http.openapi.named_schemas import Schema
from chalicelib.http.openapi.schemas import Schemas, ref

JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"
PROBLEM = "application/problem+json"
UNNAMED = "message"
"""What a client calls an event that was sent without a name."""

_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer."},
    503: {"Retry-After": "After how many seconds to try again."},
}


def answers(description: Description, schemas: Schemas) -> dict[str, Schema]:
    """The answers of an operation that does what it was asked to do."""
    found = {status: _json(ref(name)) for status, name in description.answers.items()}
    if description.feed:
        found[200] = _feed(description, schemas)
    if description.stream:
        found[200] = {EVENT_STREAM: _server_sent({name: ref(of.__name__) for name, of in _stream(description).items()})}
    for status, types in description.media.items():
        found[status] = {media_type: {"schema": {"type": "string"}} for media_type in types}
    return {str(status): _answer(status, content, description) for status, content in sorted(found.items())}


def problem(status: int) -> Schema:
    """The answer that tells a problem."""
    content: Schema = {PROBLEM: {"schema": {**ref("Problem"), "properties": {"status": {"const": status}}}}}
    if status == HTTPStatus.UNAUTHORIZED:
        content[JSON] = {"schema": ref("GatewayMessage")}
    found: Schema = {"description": descriptions.PROBLEMS[status], "content": content}
    if status in _HEADERS:
        found["headers"] = _headers(_HEADERS[status])
    return found


def types_of(description: Description) -> list[str]:
    """The names of the types that the answers are made of."""
    return [*description.answers.values(), *filter(None, [description.feed])]


def stream_types(description: Description) -> list[type]:
    """The types of the data of its server-sent events, if it is a stream."""
    return list(_stream(description).values())


def _stream(description: Description) -> Mapping[str, type]:
    return STREAMS[description.stream] if description.stream else {}


def _answer(status: int, content: Schema, description: Description) -> Schema:
    found: Schema = {"description": f"{HTTPStatus(status).phrase}."}
    if content:
        found["content"] = content
    headers = {"Preference-Applied": "What `Prefer` asked for, if it is so."} if "Prefer" in description.headers else {}
    if status == HTTPStatus.OK and "Idempotency-Key" in description.headers:
        found["description"] = "Nothing was written now: no events were sent, or an earlier request wrote them."
        headers["Idempotent-Replayed"] = "`true` if the `Idempotency-Key` came before."
    if headers:
        found["headers"] = _headers(headers)
    return found


def _headers(words_of: Mapping[str, str]) -> Schema:
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in words_of.items()}


def _json(schema: Schema) -> Schema:
    return {JSON: {"schema": schema}}


def _feed(description: Description, schemas: Schemas) -> Schema:
    """A feed in its three formats; some routes answer other JSON, too."""
    item = ref(description.feed)
    non_empty = schemas.add(f"NonEmptyOf{description.feed}", _non_empty(item))
    seq = schemas.add(f"EventSeqOf{description.feed}", {"oneOf": [non_empty, ref("Empty"), ref("Torn")]})
    others = [ref(name) for status, name in description.answers.items() if status == HTTPStatus.OK]
    return {
        **_json({"anyOf": [seq, *others]} if others else seq),
        NDJSON: {"schema": {"description": "Each line.", "anyOf": [item, ref("Torn")]}},
        EVENT_STREAM: _server_sent({"": item, "Torn": ref("Torn")}),
    }


def _non_empty(item: Schema) -> Schema:
    return {
        "type": "object",
        "description": "These events matched; everything up to `eventId` has been looked at.",
        "properties": {
            "TYPE": {"const": "NonEmpty"},
            "eventId": {"type": "integer", "minimum": 0, "exclusiveMaximum": 2**53},
            "eventSnapshots": {"type": "array", "minItems": 1, "items": item},
        },
        "required": ["TYPE", "eventId", "eventSnapshots"],
    }


def _server_sent(data: Mapping[str, Schema]) -> Schema:
    """Server-sent events by their names; one without data only says from where to go on."""
    position = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "maxProperties": 1}
    items = [*(_one_sent(name, schema) for name, schema in data.items()), position]
    return {"schema": {"description": "Each event.", "oneOf": items}}


def _one_sent(name: str, data: Schema) -> Schema:
    properties: dict[str, Any] = {
        "event": {"const": name or UNNAMED},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": JSON, "contentSchema": data},
    }
    required = ["event", "id", "data"] if name else ["id", "data"]
    return {"type": "object", "properties": properties, "required": required}
