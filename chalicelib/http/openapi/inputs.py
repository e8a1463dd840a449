"""Parameters and bodies of an operation."""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, TypeAdapter

from chalicelib.domain import vocabularies
from chalicelib.domain.vocabularies.job import events as job_events
from chalicelib.domain.vocabularies.push import events as push_events
from chalicelib.domain.vocabularies.scheduler import events as scheduler_events
from chalicelib.domain.vocabularies.scheduler import return_parameter
from chalicelib.http.openapi import descriptions, patterns
from chalicelib.http.openapi.annotations import Description
from chalicelib.http.openapi.named_schemas import Schema
from chalicelib.http.openapi.schemas import Schemas, ref

PARAMETER = re.compile(r"\{(\w+)\+?\}")

EVENTS: dict[str, TypeAdapter[Any]] = {
    "job": job_events._any_event(),
    "scheduler": scheduler_events._any_event(),
    "push": push_events._any_event(),
}
"""The events of each vocabulary, as publishers write them."""

_OF_JOBSCHEDULER = sorted(
    {*vocabularies.scheduler.COLLECTIONS, *return_parameter._NAMES} - set(return_parameter._NAMES.values())
)
_TEXT: Schema = {"type": "string", "minLength": 1}
_PATHS: dict[str, Schema] = {
    "number": {"type": "string", "pattern": "^(?:0|[1-9][0-9]{0,15})$"},
    "org": {"type": "string", "pattern": patterns.ORGANIZATION},
    "path": {"type": "string", "minLength": 1, "pattern": patterns.PATHS_IN_URL},
    "console path": _TEXT,
    "objects collection": {"type": "string", "enum": list(vocabularies.collections())},
    "jobscheduler collection": {"type": "string", "enum": [*_OF_JOBSCHEDULER, return_parameter.EVENTS]},
    "jobscheduler collection at path": {"type": "string", "enum": _OF_JOBSCHEDULER},
    "observers name": {"type": "string", "pattern": patterns.OBSERVER},
}
_QUERY: dict[str, Schema] = {"return": {"pattern": patterns.RETURNED}}
_HEADERS: dict[str, Schema] = {
    "X-Organization": {"type": "string", "pattern": patterns.ORGANIZATION},
    "Idempotency-Key": {"type": "string", "pattern": patterns.IDEMPOTENCY_KEY},
    "Prefer": {"type": "string"},
    "Last-Event-ID": {"type": "string"},
    "If-None-Match": {"type": "string"},
}


def of_query(description: Description, method: str) -> type[BaseModel] | None:
    """The model of the query string."""
    return description.query or (description.query_or_body if method == "GET" else None)


def of_body(description: Description, method: str) -> type[BaseModel] | None:
    """The model of the body."""
    if method == "GET":
        return None
    return description.body or description.body_or_nothing or description.query_or_body


def in_path(path: str, tag: str) -> Iterator[Schema]:
    """The parameters in an operation's path."""
    for name in PARAMETER.findall(path):
        special = f"{tag} {name}"
        at_path = f"{special} at path" if "{path}" in path else special
        schema = _PATHS.get(at_path) or _PATHS.get(special) or _PATHS.get(name, _TEXT)
        description = descriptions.PATHS.get(special) or descriptions.PATHS.get(name, "")
        yield {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def in_query(model: Schema, schemas: Schemas) -> Iterator[Schema]:
    """The parameters in its query string, of the model's schema; lists repeat."""
    for name, schema in model["properties"].items():
        yield {
            "name": name,
            "in": "query",
            "required": name in model.get("required", ()),
            "description": descriptions.QUERY.get(name, ""),
            "schema": {**_in_text(schema, schemas), **_QUERY.get(name, {})},
        }


def header(name: str) -> Schema:
    """A parameter in a header."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": descriptions.HEADERS[name],
        "schema": _HEADERS[name],
    }


def body(schema: Schema, required: bool) -> Schema:
    """The body of a request."""
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def vocabulary_body(vocabulary: str, schemas: Schemas) -> Schema:
    """The body with events of a vocabulary: one, or several in one request."""
    event = ref(new_event_name(vocabulary))
    several = schemas.resolved(ref("AppendRequest"))
    properties = {**several["properties"], "events": {"type": "array", "items": event}}
    return body({"anyOf": [event, {**several, "properties": properties, "description": "Several events."}]}, True)


def new_event_name(vocabulary: str) -> str:
    """The name of the schema of a vocabulary's events, as publishers write them."""
    return f"New{vocabulary.capitalize()}Event"


def _in_text(schema: Schema, schemas: Schemas) -> Schema:
    """What is left of a schema where all is text: no null, no objects, no lists in lists."""
    found, named = dict(schema), schemas.resolved(schema)
    if "anyOf" in named:
        choices = [one for one in named["anyOf"] if one.get("type") not in ("null", "object")]
        chosen = next((one for one in choices if one.get("type") != "array"), choices[0])
        found = {key: value for key, value in schema.items() if key not in ("anyOf", "$ref")}
        found |= _in_text(chosen, schemas)
    if "items" in found:
        found["items"] = _in_text(found["items"], schemas)
    if isinstance(found.get("default"), float):
        found["default"] = f"{found['default']:g}s"
    return {key: value for key, value in found.items() if (key, value) != ("default", None)}
