"""JSON Schema that types state about themselves. The OpenAPI document is built from it."""

import re
from typing import Any

from pydantic import WithJsonSchema

JsonSchema = dict[str, Any]

NAMED_SCHEMA = "x-named-schema"
"""Key of a schema that the OpenAPI document lists under its own name: `{NAMED_SCHEMA: {name: schema}}`.

pydantic resolves `$ref` only to models, so the reference is made when the document is built.
"""


def named_schema(name: str, schema: JsonSchema, **restrictions: JsonSchema) -> WithJsonSchema:
    """Annotation for a type whose JSON form differs from its Python type. `restrictions` hold only in this place."""
    return WithJsonSchema({NAMED_SCHEMA: {name: schema}, **restrictions})


def pattern_of(*forms: re.Pattern[str] | str) -> str:
    """One pattern that matches a whole text in any of `forms`, in the syntax that JSON Schema allows.

    Group names are removed, and `\\d` becomes `[0-9]` because it means ASCII digits here.
    """
    texts = [form if isinstance(form, str) else form.pattern for form in forms]
    text = re.sub(r"\(\?P<\w+>", "(?:", f"^(?:{'|'.join(texts)})$")
    return text.replace(r"[\d", "[0-9").replace(r"\d", "[0-9]")


def closed_object(**properties: JsonSchema) -> JsonSchema:
    """Objects with exactly these members."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def with_members(*names: str) -> JsonSchema:
    """Objects in which all of these members are present and not null."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}
