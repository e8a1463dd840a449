"""Whether answers are as the API's description says: every field, none but those."""

from collections.abc import Iterator
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent
from jsonschema import Draft202012Validator
from pydantic_core import from_json

from chalicelib.http.openapi.outputs import EVENT_STREAM, NDJSON, UNNAMED

Document = dict[str, Any]
Schema = dict[str, Any]

PLAIN = ("text/html", "text/javascript")


def found(described: Document, name: str) -> tuple[Schema, str, str]:
    """The operation of this name, its method and its path."""
    return next(
        (operation, method, path)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if operation["operationId"] == name
    )


def problems_with(described: Document, operation: Schema, answer: httpx.Response, body: str) -> list[str]:
    """What about the answer is not as described."""
    media_type = answer.headers["Content-Type"].partition(";")[0]
    response = resolved(described, operation["responses"][str(answer.status_code)])
    missing = [name for name in response.get("headers", {}) if name not in answer.headers]
    content = response["content"][media_type]
    errors = [
        error.message[:500]
        for schema, value in described_values(content, media_type, body)
        for error in validator(described, schema).iter_errors(value)
    ]
    return errors + [name for name in missing if answer.status_code in (401, 503)]


def described_values(content: Schema, media_type: str, body: str) -> Iterator[tuple[Schema, Any]]:
    """The parts of the answer, each with its schema."""
    if media_type == NDJSON:
        yield from ((content["schema"], from_json(line)) for line in body.splitlines() if line)
    elif media_type == EVENT_STREAM:
        for item in server_sent(body):
            yield content["schema"], item
            if "data" in item:
                yield data_schema(content["schema"], item.get("event")), from_json(item["data"])
    elif media_type in PLAIN:
        yield content["schema"], body
    else:
        yield content["schema"], from_json(body)


def server_sent(body: str) -> Iterator[dict[str, str]]:
    """Server-sent events, with those fields that each of them has."""
    answer = httpx.Response(200, headers={"Content-Type": EVENT_STREAM}, text=body)
    for event in EventSource(answer).iter_sse():
        yield fields_of(event)


def fields_of(event: ServerSentEvent) -> dict[str, str]:
    fields = {"event": event.event, "id": event.id, "data": event.data}
    return {name: text for name, text in fields.items() if text not in ("", UNNAMED)}


def data_schema(items: Schema, name: str | None) -> Schema:
    """The schema of the data of events with this name."""
    variants = [one["properties"] for one in items["oneOf"] if "data" in one["properties"]]
    found: Schema = next(one["data"]["contentSchema"] for one in variants if one["event"]["const"] == (name or UNNAMED))
    return found


def validator(described: Document, schema: Schema) -> Draft202012Validator:
    """Checks values by the schema; of answers also that they say no more than is described."""
    whole = {**closed(schema), "components": {"schemas": closed_all(described["components"]["schemas"])}}
    return Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)


def resolved(described: Document, response: Schema) -> Schema:
    name = response.get("$ref", "").rpartition("/")[2]
    found: Schema = described["components"]["responses"][name] if name else response
    return found


def closed_all(schemas: dict[str, Schema]) -> dict[str, Schema]:
    return {name: closed(schema) for name, schema in schemas.items()}


def closed(value: Any) -> Any:
    """The schema, with objects that have no members but those that it names."""
    if isinstance(value, list):
        return [closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    inner = {key: closed_all(of) if key == "properties" else closed(of) for key, of in value.items()}
    is_open = value.get("type") == "object" and "properties" in value and "additionalProperties" not in value
    return {**inner, "additionalProperties": False} if is_open else inner
