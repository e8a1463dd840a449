"""Operations: one for each method of each route. A route with a vocabulary in its path has one per vocabulary."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.domain.json_schema import JsonSchema
from chalicelib.http.openapi import inputs, outputs
from chalicelib.http.openapi.annotations import RouteDoc, route_doc_of
from chalicelib.http.openapi.schemas import Schemas, ref

COMMON_STATUSES = (500, 503)


class MissingRouteDoc(Exception):
    """A view lacks the decorator `@route_doc`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path, and the view that handles it."""

    path: str
    method: str
    name: str
    view: Any
    doc: RouteDoc
    needs_token: bool
    vocabulary: str = ""

    @property
    def problem_statuses(self) -> list[int]:
        statuses = {*COMMON_STATUSES, *self.doc.problems}
        if self.needs_token:
            statuses |= {401, 403}
        if self.takes_organization:
            statuses.add(404)
        if inputs.query_model(self.doc, self.method) or self.doc.feed:
            statuses.add(400)
        if self.has_body:
            statuses |= {400, 413, 415}
        if "Idempotency-Key" in self.doc.headers:
            statuses |= {400, 422}
        if self.doc.stream:
            statuses.add(406)
        return sorted(statuses)

    @property
    def takes_organization(self) -> bool:
        """Whether the header X-Organization selects the organization."""
        return self.needs_token and self.doc.organization and "{org}" not in self.path

    @property
    def has_body(self) -> bool:
        return bool(self.vocabulary) or self.has_text_body or inputs.body_model(self.doc, self.method) is not None

    @property
    def has_text_body(self) -> bool:
        return self.doc.text_body and self.method == "POST"


def operations(routes: Mapping[str, Mapping[str, Any]]) -> Iterator[Operation]:
    """All operations of the app, in the order in which its routes were registered."""
    for path, methods in routes.items():
        for method, entry in methods.items():
            view = entry.view_function
            doc = route_doc_of(view)
            if doc is None:
                raise MissingRouteDoc(f"{method} {path}: the view {view.__name__} has no @route_doc")
            name = _operation_id(view.__name__, path, method, entry, routes)
            operation = Operation(_openapi_path(path), method, name, view, doc, entry.authorizer is not None)
            yield from _for_each_vocabulary(operation) if doc.vocabulary else [operation]


def operation_object(operation: Operation, schemas: Schemas) -> JsonSchema:
    """The operation as OpenAPI describes it."""
    summary, _, details = (operation.view.__doc__ or "").strip().partition("\n")
    described: JsonSchema = {
        "operationId": operation.name,
        "tags": [operation.doc.tag],
        "summary": summary.rstrip(".") + (f": {operation.vocabulary}" if operation.vocabulary else ""),
        "parameters": list(_parameters(operation, schemas)),
        "responses": {
            **outputs.success_responses(operation.doc, schemas),
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in operation.problem_statuses},
        },
        "security": [{"bearer": []}] if operation.needs_token else [],
    }
    if details.strip():
        described["description"] = " ".join(details.split())
    if operation.has_body:
        described["requestBody"] = _request_body(operation, schemas)
    return {name: value for name, value in described.items() if value != [] or name == "security"}


def _parameters(operation: Operation, schemas: Schemas) -> Iterator[JsonSchema]:
    doc = operation.doc
    yield from inputs.path_parameters(operation.path, doc.tag)
    model = inputs.query_model(doc, operation.method)
    if model is not None:
        yield from inputs.query_parameters(schemas.resolve(ref(model.__name__)), schemas)
    if operation.takes_organization:
        yield inputs.header_parameter("X-Organization")
    for name in doc.headers:
        yield inputs.header_parameter(name)
    if doc.feed:
        yield inputs.header_parameter("Last-Event-ID")


def _request_body(operation: Operation, schemas: Schemas) -> JsonSchema:
    if operation.vocabulary:
        return inputs.vocabulary_body(operation.vocabulary, schemas)
    if operation.has_text_body:
        return inputs.text_body()
    model = inputs.body_model(operation.doc, operation.method)
    return inputs.request_body(ref(model.__name__ if model else ""), operation.doc.optional_body is None)


def _for_each_vocabulary(operation: Operation) -> Iterator[Operation]:
    parameter = f"{{{operation.doc.vocabulary}}}"
    for vocabulary in inputs.NEW_EVENTS:
        yield replace(
            operation,
            path=operation.path.replace(parameter, vocabulary),
            name=operation.name.replace("vocabulary", vocabulary),
            vocabulary=vocabulary,
        )


def _operation_id(view: str, path: str, method: str, entry: Any, routes: Mapping[str, Mapping[str, Any]]) -> str:
    """The view's name, with a suffix if the view has several methods or paths."""
    same_view = [
        (other_path, other_method)
        for other_path, methods in routes.items()
        for other_method, other in methods.items()
        if other.view_function is entry.view_function
    ]
    name = f"{view}_{method.lower()}" if len({other_method for _, other_method in same_view}) > 1 else view
    has_path = path.endswith("+}") and len({other_path for other_path, _ in same_view}) > 1
    return f"{name}_at_path" if has_path else name


def _openapi_path(path: str) -> str:
    return path.replace("+}", "}")
