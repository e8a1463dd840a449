"""An example: a request for an operation, and how it shows in the document."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib.http.openapi.named_schemas import Schema

JSON = "application/json"

Values = Mapping[str, str | list[str]]


@dataclass(frozen=True, slots=True)
class Example:
    """A request for an operation: what stands in its path, query and headers, and its body."""

    operation: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Values = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    status: int = 200
    """How it is answered: it is refused if it needs what only the server itself can tell."""
    is_endless: bool = False
    """Whether the answer has no end."""


def with_examples(operation: Schema, found: Iterable[Example]) -> Schema:
    """The operation, its parameters and its body with what the examples say."""
    found = list(found)
    for parameter in operation.get("parameters", ()):
        values = [value for example in found if (value := _value(example, parameter)) is not None]
        if values:
            parameter["examples"] = {str(place): {"value": value} for place, value in enumerate(values, 1)}
    bodies = [example.body for example in found if example.body is not None]
    if bodies:
        content = operation["requestBody"]["content"][JSON]
        content["examples"] = {str(place): {"value": body} for place, body in enumerate(bodies, 1)}
    return operation


def _value(example: Example, parameter: Schema) -> Any:
    within: Mapping[str, Values] = {"path": example.path, "query": example.query, "header": example.headers}
    value = within[parameter["in"]].get(parameter["name"])
    return int(value) if isinstance(value, str) and parameter["schema"].get("type") == "integer" else value
