"""Compares responses with the OpenAPI document: every described field, and no other."""

from collections.abc import Iterator
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent
from jsonschema import Draft202012Validator
from pydantic_core import from_json

from chalicelib.http.openapi.outputs import EVENT_STREAM, NDJSON, UNNAMED

Document = dict[str, Any]
Schema = dict[str, Any]

TEXT_TYPES = ("text/html", "text/javascript", "text/plain")


def find_operation(document: Document, name: str) -> tuple[Schema, str, str]:
    """The operation with this id, its method and its path."""
    return next(
        (operation, method, path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation["operationId"] == name
    )


def deviations(document: Document, operation: Schema, response: httpx.Response, body: str) -> list[str]:
    """How the response differs from its description."""
    media_type = response.headers["Content-Type"].partition(";")[0]
    described = resolve_response(document, operation["responses"][str(response.status_code)])
    missing = [name for name in described.get("headers", {}) if name not in response.headers]
    content = described["content"][media_type]
    has_body = not operation["operationId"].endswith("_head")
    errors = [
        error.message[:500]
        for schema, value in (values_with_schemas(content, media_type, body) if has_body else ())
        for error in validator(document, schema).iter_errors(value)
    ]
    return errors + [name for name in missing if response.status_code in (401, 503)]


def values_with_schemas(content: Schema, media_type: str, body: str) -> Iterator[tuple[Schema, Any]]:
    """The parts of the response, each with its schema."""
    if media_type == NDJSON:
        yield from ((content["schema"], from_json(line)) for line in body.splitlines() if line)
    elif media_type == EVENT_STREAM:
        for event in parse_sse(body):
            yield content["schema"], event
            if "data" in event:
                yield data_schema(content["schema"], event.get("event")), from_json(event["data"])
    elif media_type in TEXT_TYPES:
        yield content["schema"], body
    else:
        yield content["schema"], from_json(body)


def parse_sse(body: str) -> Iterator[dict[str, str]]:
    """Server-sent events, each with the fields that it has."""
    response = httpx.Response(200, headers={"Content-Type": EVENT_STREAM}, text=body)
    for event in EventSource(response).iter_sse():
        yield sse_fields(event)


def sse_fields(event: ServerSentEvent) -> dict[str, str]:
    fields = {"event": event.event, "id": event.id, "data": event.data}
    return {name: text for name, text in fields.items() if text not in ("", UNNAMED)}


def data_schema(events: Schema, name: str | None) -> Schema:
    """The schema of the data of events with this name."""
    variants = [event["properties"] for event in events["oneOf"] if "data" in event["properties"]]
    schema: Schema = next(
        variant["data"]["contentSchema"] for variant in variants if variant["event"]["const"] == (name or UNNAMED)
    )
    return schema


def validator(document: Document, schema: Schema) -> Draft202012Validator:
    """Validates by the schema, and refuses members that the schema does not name."""
    whole = {**closed(schema), "components": {"schemas": all_closed(document["components"]["schemas"])}}
    return Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)


def resolve_response(document: Document, response: Schema) -> Schema:
    name = response.get("$ref", "").rpartition("/")[2]
    resolved: Schema = document["components"]["responses"][name] if name else response
    return resolved


def all_closed(schemas: dict[str, Schema]) -> dict[str, Schema]:
    return {name: closed(schema) for name, schema in schemas.items()}


def closed(value: Any) -> Any:
    """The schema, with objects that have only the members that it names."""
    if isinstance(value, list):
        return [closed(element) for element in value]
    if not isinstance(value, dict):
        return value
    inner = {key: all_closed(member) if key == "properties" else closed(member) for key, member in value.items()}
    is_open = value.get("type") == "object" and "properties" in value and "additionalProperties" not in value
    return {**inner, "additionalProperties": False} if is_open else inner
