"""The document: a channel for each operation whose answer may be a stream, with all that comes over it."""

from collections.abc import Iterator
from typing import Any

from chalicelib.http.asyncapi import messages
from chalicelib.http.openapi.named_schemas import Schema
from chalicelib.http.openapi.outputs import EVENT_STREAM
from chalicelib.http.openapi.schemas import used

_ABOUT = """The feeds: what comes in answer to one request that waits, or is open as long as its client likes.

`Accept` decides on the format: one JSON document, lines of it, or server-sent events. Whoever goes on after the last
`eventId` or `id` that it has got misses nothing, and gets nothing twice. What can be asked for, and what is refused, is
described by `openapi.json`."""


def document(api: Schema) -> Schema:
    """The AsyncAPI document of the API that this OpenAPI document describes."""
    feeds = list(_feeds(api))
    channels = {operation["operationId"]: _channel(path, operation) for path, _, operation in feeds}
    operations = {operation["operationId"]: _operation(method, operation) for _, method, operation in feeds}
    schemas = used(api["components"]["schemas"], channels, operations)
    return {
        "asyncapi": "3.0.0",
        "info": {**api["info"], "description": _ABOUT, "license": {"name": api["info"]["license"]["name"]}},
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"securitySchemes": api["components"]["securitySchemes"], "schemas": in_draft_7(schemas)},
    }


def in_draft_7(value: Any) -> Any:
    """The schemas as AsyncAPI writes them: nothing stands beside a reference, a discriminator is a name."""
    match value:
        case {"$ref": target, **rest} if rest:
            return {"allOf": [{"$ref": target}], **in_draft_7(rest)}
        case {"discriminator": {"propertyName": name}, **rest}:
            return {"discriminator": name, **in_draft_7(rest)}
        case dict():
            return {key: in_draft_7(one) for key, one in value.items()}
        case list():
            return [in_draft_7(one) for one in value]
        case _:
            return value


def _feeds(api: Schema) -> Iterator[tuple[str, str, Schema]]:
    """Path, method and description of the operations that are feeds."""
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if EVENT_STREAM in operation["responses"].get("200", {}).get("content", {}):
                yield path, method, operation


def _channel(path: str, operation: Schema) -> Schema:
    found: Schema = {"address": path, "messages": dict(messages.of(operation))}
    parameters = {one["name"]: _parameter(one) for one in operation["parameters"] if one["in"] == "path"}
    return {**found, "parameters": parameters} if parameters else found


def _parameter(parameter: Schema) -> Schema:
    found: Schema = {"description": parameter["description"]}
    return {**found, "enum": parameter["schema"]["enum"]} if "enum" in parameter["schema"] else found


def _operation(method: str, operation: Schema) -> Schema:
    """How to have the channel's messages sent."""
    asked: dict[str, Any] = {one["name"]: one for one in operation["parameters"]}
    query = {name: _in_query(one) for name, one in asked.items() if one["in"] == "query"}
    http: Schema = {"method": method.upper(), "bindingVersion": "0.3.0"}
    if query:
        http["query"] = {"type": "object", "properties": query}
    return {
        "action": "send",
        "channel": {"$ref": f"#/channels/{operation['operationId']}"},
        "summary": operation["summary"],
        "description": f"Last-Event-ID: {asked['Last-Event-ID']['description']}",
        "security": [{"$ref": f"#/components/securitySchemes/{name}"} for one in operation["security"] for name in one],
        "bindings": {"http": http},
    }


def _in_query(parameter: Schema) -> Schema:
    found: Schema = in_draft_7({**parameter["schema"], "description": parameter["description"]})
    return found
