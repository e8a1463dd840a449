"""The OpenAPI document covers every route, and states what the views parse."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

import app
from chalicelib.domain.objects.path_query import PathQueryJson
from chalicelib.domain.vocabularies import VOCABULARIES
from chalicelib.domain.vocabularies.scheduler.statistics import COUNTERS
from chalicelib.http.openapi import descriptions, inputs
from chalicelib.http.openapi.annotations import RouteDoc, route_doc_of
from chalicelib.http.openapi.examples import EXAMPLES
from chalicelib.http.openapi.links import LINKS
from chalicelib.http.openapi.operations import MissingRouteDoc, operations
from chalicelib.http.openapi.response_types.jobscheduler import OrderStatistics
from chalicelib.http.parameters import AppendRequest
from tests.http.openapi.response_checks import Document

ROOT = Path(__file__).parents[3]
ROUTES = "chalicelib.http.routes"
SELECTORS = {"reader", "publisher", "user_or_admin", "organization", "selected_organizations", "organization_admin"}
"""Functions of `access` and methods of `Caller` that select organizations."""
PARSERS = ("query", "body", "optional_body", "query_or_body")


class View(NamedTuple):
    """A view, its documentation and its methods."""

    function: Callable[..., Any]
    doc: RouteDoc
    methods: frozenset[str]
    needs_token: bool


def views() -> list[View]:
    methods_by_view: dict[Callable[..., Any], set[str]] = {}
    public = set()
    for methods in app.app.routes.values():
        for method, entry in methods.items():
            methods_by_view.setdefault(entry.view_function, set()).add(method)
            if entry.authorizer is None:
                public.add(entry.view_function)
    return [
        View(inspect.unwrap(function), doc, frozenset(methods), function not in public)
        for function, methods in methods_by_view.items()
        if (doc := route_doc_of(function)) is not None
    ]


def all_operations(document: Document) -> Iterator[Document]:
    return (operation for methods in document["paths"].values() for operation in methods.values())


def test_every_route_has_a_route_doc() -> None:
    missing = [
        f"{method} {path}"
        for path, methods in app.app.routes.items()
        for method, entry in methods.items()
        if route_doc_of(entry.view_function) is None
    ]
    assert missing == []


def test_operations_view_without_route_doc_raises_error() -> None:
    class Entry:
        def view_function(self) -> None: ...

    with pytest.raises(MissingRouteDoc, match="GET /new: the view view_function has no @route_doc"):
        list(operations({"/new": {"GET": Entry()}}))


@pytest.mark.parametrize("view", views(), ids=lambda view: view.function.__name__)
def test_view_parses_the_models_in_its_route_doc(view: View) -> None:
    parsed = {name: {model for called, model in calls(view) if called == name} for name in PARSERS}
    if ("path_query", None) in calls(view) and "POST" in view.methods:
        parsed["optional_body"].add(PathQueryJson)
    if ("append_texts", None) in calls(view):
        parsed["body"].add(AppendRequest)
    named = {name: {getattr(view.doc, name)} - {None} for name in PARSERS}
    assert parsed == named


@pytest.mark.parametrize("view", views(), ids=lambda view: view.function.__name__)
def test_view_selects_organization_if_route_doc_says_so(view: View) -> None:
    selects = SELECTORS & {name for name, _ in calls(view)}
    assert bool(selects) is (view.needs_token and view.doc.organization)


@pytest.mark.parametrize("view", views(), ids=lambda view: view.function.__name__)
def test_view_reads_the_headers_in_its_route_doc(view: View) -> None:
    called = {name for name, _ in calls(view)}
    doc = view.doc
    assert ("vocabulary_events" in called) is bool(doc.vocabulary)
    assert ("idempotency_key" in called) is ("Idempotency-Key" in doc.headers)
    assert ("preferred_type" in called) is bool(doc.feed)
    assert ("last_event_id" in called) is ("Last-Event-ID" in doc.headers or bool(doc.feed))
    assert ("require_acceptable" in called) is (bool(doc.stream) or 406 in doc.problems)


def test_openapi_document_is_valid(openapi_document: Document) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(openapi_document).iter_errors()] == []


def test_operation_ids_are_unique_and_have_examples(openapi_document: Document) -> None:
    names = [operation["operationId"] for operation in all_operations(openapi_document)]
    assert len(names) == len(set(names))
    assert set(names) == {example.operation for example in EXAMPLES}


def test_link_targets_have_the_linked_parameters(openapi_document: Document) -> None:
    parameters = {
        operation["operationId"]: {parameter["name"] for parameter in operation.get("parameters", ())}
        for operation in all_operations(openapi_document)
    }
    assert [
        link for link in LINKS if link.origin not in parameters or not link.parameters.keys() <= parameters[link.target]
    ] == []


def test_every_vocabulary_has_its_own_operation(openapi_document: Document) -> None:
    assert set(inputs.NEW_EVENTS) == set(VOCABULARIES)
    assert {f"/events/{name}" for name in VOCABULARIES} <= set(openapi_document["paths"])


def test_every_description_is_used(openapi_document: Document) -> None:
    parameters = [
        parameter for operation in all_operations(openapi_document) for parameter in operation.get("parameters", ())
    ]
    assert {parameter["name"] for parameter in parameters if parameter["in"] == "query"} == set(descriptions.QUERY)
    assert {parameter["name"] for parameter in parameters if parameter["in"] == "header"} == set(descriptions.HEADERS)
    assert {tag["name"] for tag in openapi_document["tags"]} == set(descriptions.TAGS)
    assert set(openapi_document["components"]["responses"]) == {str(status) for status in descriptions.PROBLEMS}


def test_order_statistics_have_all_counters() -> None:
    assert OrderStatistics.__optional_keys__ | OrderStatistics.__required_keys__ == {*COUNTERS, "eventId"}


def test_importing_app_does_not_load_document_modules() -> None:
    script = "import app, sys; print([name for name in sys.modules if name.startswith('chalicelib.http.openapi')])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "['chalicelib.http.openapi', 'chalicelib.http.openapi.annotations']\n"


def calls(view: View) -> set[tuple[str, Any]]:
    """The functions of `requests` that the view calls, directly or through other route functions, with their models."""
    return set(_calls(view.function.__module__, view.function.__name__, frozenset()))


def _calls(module: str, function: str, visited: frozenset[str]) -> Iterator[tuple[str, Any]]:
    names = vars(import_module(module))
    for call in (node for node in ast.walk(_functions(module)[function]) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(value=ast.Name(id="access" | "caller") | ast.Attribute(attr="caller"), attr=name):
                yield name, None
            case ast.Attribute(value=ast.Name(id="requests"), attr=name):
                yield name, eval(ast.unparse(call.args[0]), names) if name in PARSERS else None
            case ast.Name(id=name) if f"{module}.{name}" not in visited:
                called = names.get(name)
                if inspect.isfunction(called) and called.__module__.startswith(ROUTES):
                    yield from _calls(called.__module__, called.__name__, visited | {f"{module}.{name}"})


@cache
def _functions(module: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(Path(import_module(module).__file__ or "").read_text())
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
