"""The OpenAPI document: all operations, and the schemas that they share."""

from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib.domain.json_schema import JsonSchema
from chalicelib.http.openapi import descriptions, inputs, outputs, response_types
from chalicelib.http.openapi.example import with_examples
from chalicelib.http.openapi.examples import examples_of
from chalicelib.http.openapi.links import with_links
from chalicelib.http.openapi.operations import Operation, operation_object, operations
from chalicelib.http.openapi.schemas import Schemas

_ALWAYS_INCLUDED = ("Problem", "GatewayMessage", "Empty", "Torn")
_DESCRIPTION = """An event log for people who run jobs: append events, follow them, query them, get notified of them.

Every request concerns one organization. Errors are `application/problem+json`."""
_BEARER: JsonSchema = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "JWT",
    "description": "A JWT with `sub`, `org` (a name or a list) and `groups`: `publishers`, `readers`, `admins`.",
}


def document(routes: Mapping[str, Mapping[str, Any]], version: str) -> JsonSchema:
    """The OpenAPI document of an app with these Chalice routes."""
    all_operations = list(operations(routes))
    schemas = Schemas(_named_types(all_operations))
    paths: dict[str, JsonSchema] = {}
    for operation in all_operations:
        described = with_examples(operation_object(operation, schemas), examples_of(operation.name))
        paths.setdefault(operation.path, {})[operation.method.lower()] = with_links(described)
    statuses = sorted({status for operation in all_operations for status in operation.problem_statuses})
    problems = {str(status): outputs.problem_response(status) for status in statuses}
    tags = dict.fromkeys(operation.doc.tag for operation in all_operations)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Annals",
            "version": version,
            "description": _DESCRIPTION,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "."}],
        "tags": [{"name": tag, "description": descriptions.TAGS.get(tag, "")} for tag in tags],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": _BEARER},
            "responses": problems,
            "schemas": schemas.referenced_by(paths, problems),
        },
    }


def _named_types(all_operations: Iterable[Operation]) -> dict[str, Any]:
    """All types that have a named schema."""
    types: dict[str, Any] = {name: response_types.find(name) for name in _ALWAYS_INCLUDED}
    for vocabulary, events in inputs.NEW_EVENTS.items():
        types[inputs.new_event_name(vocabulary)] = events
    for operation in all_operations:
        doc, method = operation.doc, operation.method
        models = (inputs.query_model(doc, method), inputs.body_model(doc, method))
        types |= {model.__name__: model for model in models if model is not None}
        types |= {name: response_types.find(name) for name in outputs.response_type_names(doc)}
        types |= {type_.__name__: type_ for type_ in outputs.stream_types(doc)}
    return types
