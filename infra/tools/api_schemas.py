"""Schemas in few words, for people."""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_NAMES = {"string": "text", "integer": "number", "boolean": "true or false", "object": "object", "null": "null"}
_BOUNDS = {"minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}"}
_LARGEST = 2**53


def words(schema: Any) -> str:
    """What the schema allows, in one line of Markdown."""
    match schema:
        case {"$ref": str(target)}:
            return linked(target.rpartition("/")[2])
        case {"const": value}:
            return f"`{value}`"
        case {"enum": list(values)}:
            return ", ".join(f"`{value}`" for value in values)
        case {"type": str(name)}:
            return _typed(name, schema)
        case {"anyOf": list(choices)} | {"oneOf": list(choices)}:
            return " or ".join(dict.fromkeys(words(choice) for choice in choices))
        case _:
            return "any JSON"


def linked(name: str) -> str:
    """A type that has its own table."""
    return f"[{name}](#type-{name.lower()})"


def fields(schema: Schema) -> list[str]:
    """A table of an object's fields."""
    required = schema.get("required", ())
    rows = [
        f"| `{name}`{'' if name in required else ' (optional)'} | {_cell(words(of))} |"
        for name, of in schema.get("properties", {}).items()
    ]
    return ["| field | |", "|---|---|", *rows] if rows else []


def _typed(name: str, schema: Schema) -> str:
    if name == "array":
        return f"list of {words(schema.get('items', True))}"
    if name == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {words(schema['additionalProperties'])}"
    return ", ".join([_name(name, schema), *_bounds(schema)])


def _name(name: str, schema: Schema) -> str:
    if schema.get("format") == "date-time":
        return "time"
    return _NAMES.get(name, name)


def _bounds(schema: Schema) -> Iterator[str]:
    for keyword, text in _BOUNDS.items():
        bound = schema.get(keyword)
        if bound not in (None, 0) and abs(bound) < _LARGEST:
            yield text.format(f"{bound:,}")
    if "maxLength" in schema:
        yield f"at most {schema['maxLength']:,} characters"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
