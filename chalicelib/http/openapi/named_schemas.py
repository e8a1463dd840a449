"""Shapes: what is written otherwise than it is kept, and has the same schema wherever it is."""

from collections.abc import Mapping
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.http.openapi import patterns

Schema = dict[str, Any]

NAME = "x-named"
"""Stands for a reference to one of `NAMED` until pydantic, which would look for a model of that name, is done."""

_NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}


def _object(**properties: Schema) -> Schema:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _ending(length: int) -> Schema:
    """Lists of this many subtypes, of which the last stands for any number."""
    before = [_SUBTYPE] * (length - 1)
    return {"type": "array", "prefixItems": [*before, {"const": "*"}], "items": False, "minItems": length}


_SUBTYPE: Schema = {"type": "string", "pattern": patterns.SUBTYPE_PATTERN}

NAMED: Mapping[str, Schema] = {
    "Duration": {
        "type": "string",
        "description": "`60`, `60s`, `0.5s`, `1h2m3s`, ISO-8601 such as `PT1M`, or `infinite`.",
        "pattern": patterns.DURATION,
        "examples": ["0.5s"],
    },
    "GivenTime": {
        "description": "A time in ISO-8601, or as seconds since 1970 and microseconds.",
        "anyOf": [
            {"type": "string", "format": "date-time"},
            _object(
                s={"type": "integer", "minimum": -62_135_596_800, "maximum": timestamps.LAST_S},
                us={"type": "integer", "minimum": 0, "maximum": 999_999},
            ),
        ],
    },
    "GivenId": {
        "description": "The id of an event, written `server.session.instance`, or as an object.",
        "anyOf": [
            {"type": "string", "pattern": patterns.ID, "examples": ["1.7.1"]},
            _object(server=_NUMBER, session=_NUMBER, instance=_NUMBER),
        ],
    },
    "TypePattern": {
        "description": "A pattern of types: `?` stands for one subtype, a final `*` for any number.",
        "anyOf": [
            {"type": "string", "pattern": patterns.TYPE_PATTERN, "examples": ["job/finish/*"]},
            {"type": "array", "items": _SUBTYPE},
            *(_ending(length) for length in range(1, 9)),
        ],
    },
}
"""By the name that they have in the document."""
