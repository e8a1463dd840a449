"""Parameters and request bodies of an operation."""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, TypeAdapter

from chalicelib.domain import vocabularies
from chalicelib.domain.expectations import expectation
from chalicelib.domain.json_schema import JsonSchema
from chalicelib.domain.log.append import IDEMPOTENCY_KEY_PATTERN
from chalicelib.domain.notifications import observer
from chalicelib.domain.objects.path_query import URL_PATHS_PATTERN
from chalicelib.domain.organizations import organization
from chalicelib.domain.pings import ping, ping_key
from chalicelib.domain.vocabularies.job import events as job_events
from chalicelib.domain.vocabularies.push import events as push_events
from chalicelib.domain.vocabularies.scheduler import events as scheduler_events
from chalicelib.domain.vocabularies.scheduler import return_parameter
from chalicelib.http.openapi import descriptions
from chalicelib.http.openapi.annotations import RouteDoc
from chalicelib.http.openapi.schemas import Schemas, ref

NEW_EVENTS: dict[str, TypeAdapter[Any]] = {
    "job": job_events.event_adapter(),
    "scheduler": scheduler_events.event_adapter(),
    "push": push_events.event_adapter(),
}
"""The events that publishers send, by vocabulary."""

_PARAMETER = re.compile(r"\{(\w+)\+?\}")
_SCHEDULER_COLLECTIONS = sorted(return_parameter.COLLECTION_NAMES)
_TEXT: JsonSchema = {"type": "string", "minLength": 1}
_ORGANIZATION: JsonSchema = {"type": "string", "pattern": organization.NAME_PATTERN}

_PATH_SCHEMAS: dict[str, JsonSchema] = {
    "number": {"type": "string", "pattern": "^(?:0|[1-9][0-9]{0,15})$"},
    "org": _ORGANIZATION,
    "path": {"type": "string", "minLength": 1, "pattern": URL_PATHS_PATTERN},
    "console path": _TEXT,
    "objects collection": {"type": "string", "enum": list(vocabularies.collections())},
    "JobScheduler collection": {"type": "string", "enum": [*_SCHEDULER_COLLECTIONS, return_parameter.EVENT_COLLECTION]},
    "JobScheduler collection at path": {"type": "string", "enum": _SCHEDULER_COLLECTIONS},
    "observers silence": {"type": "string", "pattern": "^[1-9][0-9]{0,15}$"},
    "expectations name": {"type": "string", "pattern": expectation.NAME_PATTERN},
    "pings key": {"type": "string", "pattern": ping_key.KEY_PATTERN},
    "ping keys name": {"type": "string", "pattern": ping_key.NAME_PATTERN},
    "pings name": {"type": "string", "pattern": ping.NAME_PATTERN},
    "signal": {"type": "string", "pattern": ping.SIGNAL_PATTERN},
    "observers name": {"type": "string", "pattern": observer.NAME_PATTERN},
}
"""By parameter name, or by tag and parameter name. Other parameters in paths are any text."""
_QUERY_SCHEMAS: dict[str, JsonSchema] = {"return": {"pattern": return_parameter.RETURN_PATTERN}}
"""Additions to the schemas of the models."""
_HEADER_SCHEMAS: dict[str, JsonSchema] = {
    "X-Organization": _ORGANIZATION,
    "Idempotency-Key": {"type": "string", "pattern": IDEMPOTENCY_KEY_PATTERN},
    "Prefer": {"type": "string"},
    "Last-Event-ID": {"type": "string"},
    "If-None-Match": {"type": "string"},
}


def query_model(doc: RouteDoc, method: str) -> type[BaseModel] | None:
    return doc.query or (doc.query_or_body if method == "GET" else None)


def body_model(doc: RouteDoc, method: str) -> type[BaseModel] | None:
    return None if method == "GET" else doc.body or doc.optional_body or doc.query_or_body


def path_parameters(path: str, tag: str) -> Iterator[JsonSchema]:
    for name in _PARAMETER.findall(path):
        tagged = f"{tag} {name}"
        at_path = f"{tagged} at path" if "{path}" in path else tagged
        schema = _PATH_SCHEMAS.get(at_path) or _PATH_SCHEMAS.get(tagged) or _PATH_SCHEMAS.get(name, _TEXT)
        description = descriptions.PATHS.get(tagged) or descriptions.PATHS.get(name, "")
        yield {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def query_parameters(model: JsonSchema, schemas: Schemas) -> Iterator[JsonSchema]:
    """One parameter for each property of the query's model. List parameters repeat."""
    for name, schema in model["properties"].items():
        yield {
            "name": name,
            "in": "query",
            "required": name in model.get("required", ()),
            "description": descriptions.QUERY.get(name, ""),
            "schema": {**_text_schema(schema, schemas), **_QUERY_SCHEMAS.get(name, {})},
        }


def header_parameter(name: str) -> JsonSchema:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": descriptions.HEADERS[name],
        "schema": _HEADER_SCHEMAS[name],
    }


def request_body(schema: JsonSchema, required: bool) -> JsonSchema:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def text_body() -> JsonSchema:
    return {"required": False, "content": {"text/plain": {"schema": {"type": "string"}}}}


def vocabulary_body(vocabulary: str, schemas: Schemas) -> JsonSchema:
    """The body with events of a vocabulary: one event, or a list of them."""
    event = ref(new_event_name(vocabulary))
    several = schemas.resolve(ref("AppendRequest"))
    properties = {**several["properties"], "events": {"type": "array", "items": event}}
    schema = {"anyOf": [event, {**several, "properties": properties, "description": "Several events."}]}
    return request_body(schema, required=True)


def new_event_name(vocabulary: str) -> str:
    """The name of the schema of a vocabulary's events."""
    return f"New{vocabulary.capitalize()}Event"


def _text_schema(schema: JsonSchema, schemas: Schemas) -> JsonSchema:
    """`schema` restricted to values that a query string can hold: no null, no objects, no nested lists."""
    text_schema, target = dict(schema), schemas.resolve(schema)
    if "anyOf" in target:
        choices = [choice for choice in target["anyOf"] if choice.get("type") not in ("null", "object")]
        preferred = next((choice for choice in choices if choice.get("type") != "array"), choices[0])
        text_schema = {key: value for key, value in schema.items() if key not in ("anyOf", "$ref")}
        text_schema |= _text_schema(preferred, schemas)
    if "items" in text_schema:
        text_schema["items"] = _text_schema(text_schema["items"], schemas)
    if isinstance(text_schema.get("default"), float):
        text_schema["default"] = f"{text_schema['default']:g}s"
    return {key: value for key, value in text_schema.items() if (key, value) != ("default", None)}
