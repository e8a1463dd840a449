"""Operations: one for each method of each route; a route of vocabularies has one for each of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.http.openapi import inputs, outputs
from chalicelib.http.openapi.annotations import Description, description_of
from chalicelib.http.openapi.named_schemas import Schema
from chalicelib.http.openapi.schemas import Schemas, ref

EVERYWHERE = (500, 503)


class NotDescribed(Exception):
    """A view lacks the decorator `described`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path, and the view that answers it."""

    path: str
    method: str
    name: str
    view: Any
    description: Description
    needs_token: bool
    vocabulary: str = ""

    @property
    def statuses(self) -> list[int]:
        """Of which problems it may tell."""
        found = {*EVERYWHERE, *self.description.refusals}
        if self.needs_token:
            found |= {401, 403}
        if self.takes_organization:
            found.add(404)
        if inputs.of_query(self.description, self.method) or self.description.feed:
            found.add(400)
        if self.has_body:
            found |= {400, 413, 415}
        if "Idempotency-Key" in self.description.headers:
            found |= {400, 422}
        if self.description.stream:
            found.add(406)
        return sorted(found)

    @property
    def takes_organization(self) -> bool:
        """Whether a header may say which organization is meant."""
        return self.needs_token and self.description.organization and "{org}" not in self.path

    @property
    def has_body(self) -> bool:
        """Whether something may be sent."""
        return bool(self.vocabulary) or inputs.of_body(self.description, self.method) is not None


def operations(routes: Mapping[str, Mapping[str, Any]]) -> Iterator[Operation]:
    """All operations of the app's routes, in the order in which these were registered."""
    for path, methods in routes.items():
        for method, entry in methods.items():
            view = entry.view_function
            description = description_of(view)
            if description is None:
                raise NotDescribed(f"{method} {path}: the view {view.__name__} has no @described")
            name = _name(view.__name__, path, method, entry, routes)
            found = Operation(_plain(path), method, name, view, description, entry.authorizer is not None)
            yield from _for_each_vocabulary(found) if description.vocabulary else [found]


def documented(operation: Operation, schemas: Schemas) -> Schema:
    """The operation as OpenAPI describes it."""
    summary, _, more = (operation.view.__doc__ or "").strip().partition("\n")
    found: Schema = {
        "operationId": operation.name,
        "tags": [operation.description.tag],
        "summary": summary.rstrip(".") + (f": {operation.vocabulary}" if operation.vocabulary else ""),
        "parameters": list(_parameters(operation, schemas)),
        "responses": {
            **outputs.answers(operation.description, schemas),
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in operation.statuses},
        },
        "security": [{"bearer": []}] if operation.needs_token else [],
    }
    if more.strip():
        found["description"] = " ".join(more.split())
    if operation.has_body:
        found["requestBody"] = _body(operation, schemas)
    return {name: value for name, value in found.items() if value != [] or name == "security"}


def _parameters(operation: Operation, schemas: Schemas) -> Iterator[Schema]:
    description = operation.description
    yield from inputs.in_path(operation.path, description.tag)
    model = inputs.of_query(description, operation.method)
    if model is not None:
        yield from inputs.in_query(schemas.resolved(ref(model.__name__)), schemas)
    if operation.takes_organization:
        yield inputs.header("X-Organization")
    for name in description.headers:
        yield inputs.header(name)
    if description.feed:
        yield inputs.header("Last-Event-ID")


def _body(operation: Operation, schemas: Schemas) -> Schema:
    if operation.vocabulary:
        return inputs.vocabulary_body(operation.vocabulary, schemas)
    model = inputs.of_body(operation.description, operation.method)
    return inputs.body(ref(model.__name__ if model else ""), operation.description.body_or_nothing is None)


def _for_each_vocabulary(operation: Operation) -> Iterator[Operation]:
    parameter = f"{{{operation.description.vocabulary}}}"
    for vocabulary in inputs.EVENTS:
        yield replace(
            operation,
            path=operation.path.replace(parameter, vocabulary),
            name=operation.name.replace("vocabulary", vocabulary),
            vocabulary=vocabulary,
        )


def _name(view: str, path: str, method: str, entry: Any, routes: Mapping[str, Mapping[str, Any]]) -> str:
    """The view's name, and what tells it from the others of the same view."""
    places = [
        (other_path, other_method)
        for other_path, methods in routes.items()
        for other_method, other in methods.items()
        if other.view_function is entry.view_function
    ]
    name = f"{view}_{method.lower()}" if len({one for _, one in places}) > 1 else view
    is_rest = path.endswith("+}") and len({one for one, _ in places}) > 1
    return f"{name}_at_path" if is_rest else name


def _plain(path: str) -> str:
    """The path as OpenAPI writes it."""
    return path.replace("+}", "}")
