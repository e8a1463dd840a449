"""An example request for an operation, and how the document shows it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib.domain.json_schema import JsonSchema

Values = Mapping[str, str | list[str]]


@dataclass(frozen=True, slots=True)
class Example:
    """A request for an operation: values of its path, query and headers, and its body."""

    operation: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Values = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    status: int = 200
    """The status of the response. It is an error if the request needs a secret that only the server knows."""
    is_endless: bool = False
    """Whether the response is a stream that stays open."""


def with_examples(operation: JsonSchema, examples: Iterable[Example]) -> JsonSchema:
    """Add the values of the examples to the parameters and the body of `operation`."""
    examples = list(examples)
    for parameter in operation.get("parameters", ()):
        values = [value for example in examples if (value := _value(example, parameter)) is not None]
        if values:
            parameter["examples"] = _numbered(values)
    bodies = [example.body for example in examples if example.body is not None]
    if bodies:
        for content in operation["requestBody"]["content"].values():
            content["examples"] = _numbered(bodies)
    return operation


def _numbered(values: list[Any]) -> JsonSchema:
    return {str(number): {"value": value} for number, value in enumerate(values, 1)}


def _value(example: Example, parameter: JsonSchema) -> Any:
    values: Mapping[str, Values] = {"path": example.path, "query": example.query, "header": example.headers}
    value = values[parameter["in"]].get(parameter["name"])
    return int(value) if isinstance(value, str) and parameter["schema"].get("type") == "integer" else value
