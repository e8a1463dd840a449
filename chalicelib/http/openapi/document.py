"""The document: all operations, and the schemas that they share."""

from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib.http.openapi import answers, descriptions, examples, inputs, outputs
from chalicelib.http.openapi.example import with_examples
from chalicelib.http.openapi.links import with_links
from chalicelib.http.openapi.named_schemas import Schema
from chalicelib.http.openapi.operations import Operation, documented, operations
from chalicelib.http.openapi.schemas import Schemas

_ALWAYS = ("Problem", "GatewayMessage", "Empty", "Torn")
_ABOUT = """An event log for people who run jobs: append events, follow them, query them, be told about them.

Every request means one organization. Errors are `application/problem+json`."""


def document(routes: Mapping[str, Mapping[str, Any]], version: str) -> Schema:
    """The OpenAPI document of the app that has these routes."""
    found = list(operations(routes))
    schemas = Schemas(_types(found))
    paths: dict[str, Schema] = {}
    for one in found:
        operation = with_examples(documented(one, schemas), examples.of(one.name))
        paths.setdefault(one.path, {})[one.method.lower()] = with_links(operation)
    responses = {str(status): outputs.problem(status) for status in sorted({s for one in found for s in one.statuses})}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Annals",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "."}],
        "tags": [{"name": tag, "description": descriptions.TAGS.get(tag, "")} for tag in _tags(found)],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": _BEARER},
            "responses": responses,
            "schemas": schemas.used_by(paths, responses),
        },
    }


_BEARER: Schema = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "JWT",
    "description": "A JWT with `sub`, `org` (a name or a list) and `groups`: `publishers`, `readers`, `admins`.",
}


def _tags(found: Iterable[Operation]) -> list[str]:
    return list(dict.fromkeys(one.description.tag for one in found))


def _types(found: Iterable[Operation]) -> dict[str, Any]:
    """All that has a schema, by name."""
    types: dict[str, Any] = {name: answers.named(name) for name in _ALWAYS}
    for vocabulary, events in inputs.EVENTS.items():
        types[inputs.new_event_name(vocabulary)] = events
    for one in found:
        models = (inputs.of_query(one.description, one.method), inputs.of_body(one.description, one.method))
        types |= {model.__name__: model for model in models if model is not None}
        types |= {name: answers.named(name) for name in outputs.types_of(one.description)}
        types |= {of.__name__: of for of in outputs.stream_types(one.description)}
    return types
