"""Describes JSON schemas in one line of Markdown."""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_NAMES = {"string": "text", "integer": "number", "boolean": "true or false", "object": "object", "null": "null"}
_BOUNDS = {"minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}"}
_MAX_SHOWN_BOUND = 2**53


def describe_schema(schema: Any) -> str:
    match schema:
        case {"$ref": str(target)}:
            return type_link(target.rpartition("/")[2])
        case {"const": value}:
            return f"`{value}`"
        case {"enum": list(values)}:
            return ", ".join(f"`{value}`" for value in values)
        case {"type": str(name)}:
            return _describe_type(name, schema)
        case {"anyOf": list(choices)} | {"oneOf": list(choices)}:
            return " or ".join(dict.fromkeys(describe_schema(choice) for choice in choices))
        case _:
            return "any JSON"


def type_link(name: str) -> str:
    """A link to the table of a named type."""
    return f"[{name}](#type-{name.lower()})"


def fields_table(schema: Schema) -> list[str]:
    """A Markdown table field an object's fields."""
    required = schema.get("required", ())
    rows = [
        f"| `{name}`{'' if name in required else ' (optional)'} | {_cell(describe_schema(field))} |"
        for name, field in schema.get("properties", {}).items()
    ]
    return ["| field | |", "|---|---|", *rows] if rows else []


def _describe_type(name: str, schema: Schema) -> str:
    if name == "array":
        return f"list of {describe_schema(schema.get('items', True))}"
    if name == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {describe_schema(schema['additionalProperties'])}"
    return ", ".join([_type_name(name, schema), *_bounds(schema)])


def _type_name(name: str, schema: Schema) -> str:
    if schema.get("format") == "date-time":
        return "time"
    return _NAMES.get(name, name)


def _bounds(schema: Schema) -> Iterator[str]:
    for keyword, text in _BOUNDS.items():
        bound = schema.get(keyword)
        if bound not in (None, 0) and abs(bound) < _MAX_SHOWN_BOUND:
            yield text.format(f"{bound:,}")
    if "maxLength" in schema:
        yield f"at most {schema['maxLength']:,} characters"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
