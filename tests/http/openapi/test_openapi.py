"""The API's description says what the code does: every route, every model, every rule."""

import ast
import inspect
import pydoc
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import AfterValidator, TypeAdapter

import app
from chalicelib.domain.objects.path_query import PathQueryJson
from chalicelib.domain.vocabularies import VOCABULARIES
from chalicelib.domain.vocabularies.scheduler.statistics import COUNTERS
from chalicelib.http.openapi import descriptions, document, inputs, schemas, validator_schemas
from chalicelib.http.openapi.annotations import Description, description_of
from chalicelib.http.openapi.answers.jobscheduler import OrderStatistics
from chalicelib.http.openapi.examples import EXAMPLES
from chalicelib.http.openapi.links import LINKS
from chalicelib.http.openapi.operations import NotDescribed, operations

ROOT = Path(__file__).parents[3]
ROUTES = "chalicelib.http.routes"
PARSERS = ("query", "body", "body_or_nothing", "query_or_body")
Document = dict[str, Any]


class View(NamedTuple):
    """A view, its description, and the methods by which it is reached."""

    function: Callable[..., Any]
    description: Description
    methods: frozenset[str]
    needs_token: bool


def views() -> list[View]:
    found: dict[Callable[..., Any], set[str]] = {}
    public = set()
    for methods in app.app.routes.values():
        for method, entry in methods.items():
            found.setdefault(entry.view_function, set()).add(method)
            if entry.authorizer is None:
                public.add(entry.view_function)
    return [
        View(inspect.unwrap(function), description, frozenset(methods), function not in public)
        for function, methods in found.items()
        if (description := description_of(function)) is not None
    ]


@pytest.fixture(scope="module")
def described() -> Document:
    return document(app.app.routes, "1")


def operations_of(described: Document) -> Iterator[Document]:
    return (operation for methods in described["paths"].values() for operation in methods.values())


def test_every_route_is_described() -> None:
    missing = [
        f"{method} {path}"
        for path, methods in app.app.routes.items()
        for method, entry in methods.items()
        if description_of(entry.view_function) is None
    ]
    assert missing == []


def test_a_route_that_is_not_described_is_an_error() -> None:
    class Entry:
        def view_function(self) -> None: ...

    with pytest.raises(NotDescribed, match="GET /new: the view view_function has no @described"):
        list(operations({"/new": {"GET": Entry()}}))


@pytest.mark.parametrize("view", views(), ids=lambda view: view.function.__name__)
def test_a_view_parses_with_the_models_that_its_description_names(view: View) -> None:
    parsed = {name: {model for called, model in calls(view) if called == name} for name in PARSERS}
    if ("path_query", None) in calls(view) and "POST" in view.methods:
        parsed["body_or_nothing"].add(PathQueryJson)
    named = {name: {getattr(view.description, name)} - {None} for name in PARSERS}
    assert parsed == named


@pytest.mark.parametrize("view", views(), ids=lambda view: view.function.__name__)
def test_a_view_asks_for_the_organization_if_its_description_says_so(view: View) -> None:
    asked = {"organization", "meant"} & {name for name, _ in calls(view)}
    assert bool(asked) is (view.needs_token and view.description.organization)


@pytest.mark.parametrize("view", views(), ids=lambda view: view.function.__name__)
def test_a_view_reads_the_headers_that_its_description_names(view: View) -> None:
    called = {name for name, _ in calls(view)}
    description = view.description
    assert ("vocabulary_events" in called) is bool(description.vocabulary)
    assert ("idempotency_key" in called) is ("Idempotency-Key" in description.headers)
    assert ("preferred" in called) is bool(description.feed)
    assert ("last_event_id" in called) is ("Last-Event-ID" in description.headers or bool(description.feed))
    assert ("require_acceptable" in called) is (bool(description.stream) or 406 in description.refusals)


def test_the_document_is_valid_openapi(described: Document) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(described).iter_errors()] == []


def test_operations_have_names_of_their_own_and_examples(described: Document) -> None:
    names = [operation["operationId"] for operation in operations_of(described)]
    assert len(names) == len(set(names))
    assert set(names) == {example.operation for example in EXAMPLES}


@pytest.mark.parametrize("name", validator_schemas.RULES)
def test_a_rule_is_named_as_the_function_that_keeps_it(name: str) -> None:
    assert callable(pydoc.locate(name))


def test_a_rule_that_nobody_described_is_an_error() -> None:
    def odd(value: int) -> int:
        return value

    with pytest.raises(schemas.UnknownRule, match="odd"):
        schemas.Schemas({"Odd": TypeAdapter(Annotated[int, AfterValidator(odd)])})


def test_links_lead_to_operations_that_have_their_parameters(described: Document) -> None:
    parameters = {
        one["operationId"]: {p["name"] for p in one.get("parameters", ())} for one in operations_of(described)
    }
    assert [
        link for link in LINKS if link.origin not in parameters or not link.parameters.keys() <= parameters[link.target]
    ] == []


def test_every_vocabulary_has_an_operation_of_its_own(described: Document) -> None:
    assert set(inputs.EVENTS) == set(VOCABULARIES)
    assert {f"/events/{name}" for name in VOCABULARIES} <= set(described["paths"])


def test_no_words_are_left_over(described: Document) -> None:
    parameters = [one for operation in operations_of(described) for one in operation.get("parameters", ())]
    assert {one["name"] for one in parameters if one["in"] == "query"} == set(descriptions.QUERY)
    assert {one["name"] for one in parameters if one["in"] == "header"} == set(descriptions.HEADERS)
    assert {one["name"] for one in described["tags"]} == set(descriptions.TAGS)
    assert set(described["components"]["responses"]) == {str(status) for status in descriptions.PROBLEMS}


def test_statistics_have_all_counters() -> None:
    assert OrderStatistics.__optional_keys__ | OrderStatistics.__required_keys__ == {*COUNTERS, "eventId"}


def test_whoever_starts_the_app_does_not_wait_for_the_description() -> None:
    script = "import app, sys; print([name for name in sys.modules if name.startswith('chalicelib.http.openapi')])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def calls(view: View) -> set[tuple[str, Any]]:
    """What the view calls of `requests`, itself or by functions of the routes, each with its model if it has one."""
    return set(_calls(view.function.__module__, view.function.__name__, frozenset()))


def _calls(module: str, function: str, on_the_way: frozenset[str]) -> Iterator[tuple[str, Any]]:
    names = vars(import_module(module))
    for call in (node for node in ast.walk(_functions(module)[function]) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(value=ast.Name(id="caller"), attr=("organization" | "meant") as name):
                yield name, None
            case ast.Attribute(value=ast.Name(id="requests"), attr=name):
                yield name, eval(ast.unparse(call.args[0]), names) if name in PARSERS else None
            case ast.Name(id=name) if f"{module}.{name}" not in on_the_way:
                called = names.get(name)
                if inspect.isfunction(called) and called.__module__.startswith(ROUTES):
                    yield from _calls(called.__module__, called.__name__, on_the_way | {f"{module}.{name}"})


@cache
def _functions(module: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(Path(import_module(module).__file__ or "").read_text())
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
