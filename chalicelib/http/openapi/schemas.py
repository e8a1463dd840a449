"""JSON Schema of our types, requests and answers alike."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from chalicelib.http.openapi import patterns
from chalicelib.http.openapi.named_schemas import NAME, NAMED, Schema
from chalicelib.http.openapi.validator_schemas import RULES

PREFIX = "#/components/schemas/"

_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


class UnknownRule(Exception):
    """A model keeps a rule that `rules` says nothing about."""


class Schemas:
    """The schemas of some types, which refer to each other by name."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        keys = sorted(types)
        generator = _Generator(by_alias=True, ref_template=f"{PREFIX}{{model}}")
        found, named = generator.generate_definitions([(key, "validation", _core(types[key])) for key in keys])
        self._named: dict[str, Schema] = {**NAMED} | {_public(name): tidied(schema) for name, schema in named.items()}
        for key in keys:
            schema = tidied(found[key, "validation"])
            if schema != ref(key):
                self._named[key] = schema

    def add(self, name: str, schema: Schema) -> Schema:
        """A reference to the schema, which has this name from now on."""
        self._named[name] = schema
        return ref(name)

    def resolved(self, schema: Schema) -> Schema:
        """The schema itself, if this only refers to one."""
        name = schema.get("$ref", "")
        return self._named[name.removeprefix(PREFIX)] if name else schema

    def used_by(self, *parts: object) -> dict[str, Schema]:
        """All schemas that the parts refer to, and those that these refer to."""
        return used(self._named, *parts)


def used(named: Mapping[str, Schema], *parts: object) -> dict[str, Schema]:
    """Those of the named schemas that the parts refer to, and those that these refer to."""
    found: set[str] = set()
    new = set().union(*(_names(part) for part in parts))
    while new:
        found |= new
        new = set().union(*(_names(named[name]) for name in new)) - found
    return {name: named[name] for name in sorted(found)}


def ref(name: str) -> Schema:
    """A reference to the schema of this name."""
    return {"$ref": f"{PREFIX}{name}"}


def tidied(schema: Schema) -> Schema:
    """The schema without the titles that repeat names, with bounds called as JSON Schema calls them."""
    tidy: Schema = {}
    for key, value in schema.items():
        if key == "title":
            continue
        if key == NAME:
            tidy |= ref(value)
            continue
        name = _BOUNDS.get(key, key)
        tidy[name] = {one: tidied(of) for one, of in value.items()} if key == "properties" else _tidied(value)
    if tidy.get("minimum") and "$ref" in tidy:  # of a duration, which is written as text
        tidy = {"$ref": tidy["$ref"], "not": {"pattern": patterns.SHORTER_THAN_10_MS}}
    return tidy


def _tidied(value: Any) -> Any:
    match value:
        case list():
            return [_tidied(one) for one in value]
        case dict():
            return tidied(value)
        case str() if value.startswith(PREFIX):
            return f"{PREFIX}{_public(value.removeprefix(PREFIX))}"
        case _:
            return value


def _public(name: str) -> str:
    """The name of a schema; what is private in our code is not in the document."""
    return name.lstrip("_")


def _core(type_: Any) -> core_schema.CoreSchema:
    return type_.core_schema if isinstance(type_, TypeAdapter) else TypeAdapter(type_).core_schema


def _names(part: object) -> set[str]:
    match part:
        case {"$ref": str(target), **rest}:
            return {target.removeprefix(PREFIX), *_names(rest)} if target.startswith(PREFIX) else _names(rest)
        case dict():
            return _all(part.values())
        case list():
            return _all(part)
        case _:
            return set()


def _all(parts: Iterable[object]) -> set[str]:
    return set().union(*(_names(part) for part in parts))


class _Generator(GenerateJsonSchema):
    """What pydantic says of a model, and what our rules add to that."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        return _rule(schema["function"]["function"]) or self.generate_inner(schema["schema"])

    def function_plain_schema(self, schema: core_schema.PlainValidatorFunctionSchema) -> JsonSchemaValue:
        return dict(_rule(schema["function"]["function"]))

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        return {**self.generate_inner(schema["schema"]), **_rule(schema["function"]["function"])}


def _rule(function: Callable[..., Any]) -> Schema:
    if isinstance(function, partial):
        return {}  # a bound, which pydantic tells itself
    name = f"{function.__module__}.{function.__qualname__}"
    if name not in RULES:
        raise UnknownRule(f"chalicelib.http.openapi.validator_schemas does not know {name}")
    return RULES[name]
