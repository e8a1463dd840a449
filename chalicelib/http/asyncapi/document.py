"""The AsyncAPI document: a channel with its messages for each operation that can stream."""

from collections.abc import Iterator
from typing import Any

from chalicelib.domain.json_schema import JsonSchema
from chalicelib.http.asyncapi.messages import channel_messages
from chalicelib.http.openapi.outputs import EVENT_STREAM
from chalicelib.http.openapi.schemas import referenced_schemas

_DESCRIPTION = """The feeds: the messages that a request receives while it waits or while its stream is open.

`Accept` selects the format: one JSON document, NDJSON, or server-sent events. A client that resumes after the last
`eventId` or `id` it received misses nothing and receives nothing twice. `openapi.json` describes the requests and
the errors."""


def document(api: JsonSchema) -> JsonSchema:
    """The AsyncAPI document of the API that the OpenAPI document `api` describes."""
    feeds = list(_feeds(api))
    channels = {operation["operationId"]: _channel(path, operation) for path, _, operation in feeds}
    operations = {operation["operationId"]: _operation(method, operation) for _, method, operation in feeds}
    schemas = referenced_schemas(api["components"]["schemas"], channels, operations)
    return {
        "asyncapi": "3.0.0",
        "info": {**api["info"], "description": _DESCRIPTION, "license": {"name": api["info"]["license"]["name"]}},
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"securitySchemes": api["components"]["securitySchemes"], "schemas": to_draft_7(schemas)},
    }


def to_draft_7(value: Any) -> Any:
    """Schemas as AsyncAPI requires them: no keywords beside a reference, and a discriminator is a property name."""
    match value:
        case {"$ref": target, **rest} if rest:
            return {"allOf": [{"$ref": target}], **to_draft_7(rest)}
        case {"discriminator": {"propertyName": name}, **rest}:
            return {"discriminator": name, **to_draft_7(rest)}
        case dict():
            return {key: to_draft_7(member) for key, member in value.items()}
        case list():
            return [to_draft_7(element) for element in value]
        case _:
            return value


def _feeds(api: JsonSchema) -> Iterator[tuple[str, str, JsonSchema]]:
    """Path, method and description of the operations that are feeds."""
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if EVENT_STREAM in operation["responses"].get("200", {}).get("content", {}):
                yield path, method, operation


def _channel(path: str, operation: JsonSchema) -> JsonSchema:
    channel: JsonSchema = {"address": path, "messages": dict(channel_messages(operation))}
    in_path = (parameter for parameter in operation["parameters"] if parameter["in"] == "path")
    parameters = {parameter["name"]: _path_parameter(parameter) for parameter in in_path}
    return {**channel, "parameters": parameters} if parameters else channel


def _path_parameter(parameter: JsonSchema) -> JsonSchema:
    description: JsonSchema = {"description": parameter["description"]}
    return {**description, "enum": parameter["schema"]["enum"]} if "enum" in parameter["schema"] else description


def _operation(method: str, operation: JsonSchema) -> JsonSchema:
    """The request that makes the server send the channel's messages."""
    parameters: dict[str, Any] = {parameter["name"]: parameter for parameter in operation["parameters"]}
    query = {name: _query_schema(parameter) for name, parameter in parameters.items() if parameter["in"] == "query"}
    http: JsonSchema = {"method": method.upper(), "bindingVersion": "0.3.0"}
    if query:
        http["query"] = {"type": "object", "properties": query}
    schemes = (name for requirement in operation["security"] for name in requirement)
    return {
        "action": "send",
        "channel": {"$ref": f"#/channels/{operation['operationId']}"},
        "summary": operation["summary"],
        "description": f"Last-Event-ID: {parameters['Last-Event-ID']['description']}",
        "security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in schemes],
        "bindings": {"http": http},
    }


def _query_schema(parameter: JsonSchema) -> JsonSchema:
    schema: JsonSchema = to_draft_7({**parameter["schema"], "description": parameter["description"]})
    return schema
