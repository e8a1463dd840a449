"""JSON Schema of the request and response types, by name."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from chalicelib.domain.json_schema import NAMED_SCHEMA, JsonSchema

PREFIX = "#/components/schemas/"

_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""pydantic leaves its own names if a bound follows a validator function."""


class Schemas:
    """The schemas of the document's types, which refer to each other by name."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        self._named: dict[str, JsonSchema] = {}
        names = sorted(types)
        generator = GenerateJsonSchema(by_alias=True, ref_template=f"{PREFIX}{{model}}")
        schemas, definitions = generator.generate_definitions(
            [(name, "validation", _core_schema(types[name])) for name in names]
        )
        self._named |= {_public_name(key): self._tidy(definition) for key, definition in definitions.items()}
        for name in names:
            schema = self._tidy(schemas[name, "validation"])
            if schema != ref(name):
                self._named[name] = schema

    def add(self, name: str, schema: JsonSchema) -> JsonSchema:
        """Store the schema under `name` and return a reference to it."""
        self._named[name] = schema
        return ref(name)

    def resolve(self, schema: JsonSchema) -> JsonSchema:
        """The schema that `schema` refers to, or `schema` if it is not a reference."""
        target = schema.get("$ref", "")
        return self._named[target.removeprefix(PREFIX)] if target else schema

    def referenced_by(self, *parts: object) -> dict[str, JsonSchema]:
        return referenced_schemas(self._named, *parts)

    def _tidy(self, schema: JsonSchema) -> JsonSchema:
        """Drop pydantic's titles, use JSON Schema's names of bounds, and store named schemas separately."""
        tidy: JsonSchema = {}
        for key, value in schema.items():
            if key == "title":
                continue
            if key == NAMED_SCHEMA:
                self._named |= value
                tidy |= ref(*value)
            elif key == "properties":
                tidy[key] = {name: self._tidy(member) for name, member in value.items()}
            else:
                tidy[_BOUNDS.get(key, key)] = self._tidy_value(value)
        return tidy

    def _tidy_value(self, value: Any) -> Any:
        match value:
            case list():
                return [self._tidy_value(element) for element in value]
            case dict():
                return self._tidy(value)
            case str() if value.startswith(PREFIX):
                return f"{PREFIX}{_public_name(value.removeprefix(PREFIX))}"
            case _:
                return value


def ref(name: str) -> JsonSchema:
    return {"$ref": f"{PREFIX}{name}"}


def referenced_schemas(schemas: Mapping[str, JsonSchema], *parts: object) -> dict[str, JsonSchema]:
    """The schemas that `parts` refer to, directly or through other schemas."""
    names: set[str] = set()
    new = _referenced_names(parts)
    while new:
        names |= new
        new = _referenced_names(schemas[name] for name in new) - names
    return {name: schemas[name] for name in sorted(names)}


def _referenced_names(parts: Iterable[object]) -> set[str]:
    names: set[str] = set()
    for part in parts:
        match part:
            case {"$ref": str(target), **rest}:
                names |= {target.removeprefix(PREFIX)} if target.startswith(PREFIX) else set()
                names |= _referenced_names(rest.values())
            case dict():
                names |= _referenced_names(part.values())
            case list():
                names |= _referenced_names(part)
    return names


def _public_name(name: str) -> str:
    """Private classes of our code have public names in the document."""
    return name.lstrip("_")


def _core_schema(type_: Any) -> core_schema.CoreSchema:
    return type_.core_schema if isinstance(type_, TypeAdapter) else TypeAdapter(type_).core_schema
