"""The design itself: errors and their answers, docstrings, ports and their adapters, values."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

import app
import chalicelib
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain import errors
from chalicelib.domain.model import Model
from chalicelib.http import problems
from chalicelib.services.feeds.notifiers import Bell, Looking
from chalicelib.services.ports import Log, Wake

ROOT = Path(__file__).parent.parent
LONGEST_MODULE = 300
LONGEST_FUNCTION = 50
"""Beyond what the style asks why for; nobody has an answer that good."""
VAGUE = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
SOURCES = [ROOT / "app.py", *sorted((ROOT / "chalicelib").rglob("*.py")), *sorted((ROOT / "infra").rglob("*.py"))]


def error_classes() -> list[type[errors.AnnalsError]]:
    """Every error, in the order in which they are defined."""
    found = [value for value in vars(errors).values() if inspect.isclass(value)]
    return [value for value in found if issubclass(value, errors.AnnalsError)]


def modules() -> list[ModuleType]:
    """Every module of the product."""
    walked = pkgutil.walk_packages(chalicelib.__path__, "chalicelib.")
    return [importlib.import_module(info.name) for info in walked]


def classes() -> Iterator[type]:
    """Every class of the product."""
    for module in modules():
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                yield value


def functions(source: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.FunctionDef))


def test_every_error_has_a_status_or_is_the_parent_of_those_that_have() -> None:
    with_status = set(problems.STATUS)
    without = set(error_classes()) - with_status
    assert [error.__name__ for error in without if not error.__subclasses__()] == []
    assert with_status <= set(error_classes())


def test_the_status_of_what_is_refused_blames_the_client_and_of_the_rest_does_not() -> None:
    blamed = {error for error, status in problems.STATUS.items() if 400 <= status < 500}
    assert blamed == {error for error in problems.STATUS if issubclass(error, errors.Refused)}
    assert all(status >= 500 for error, status in problems.STATUS.items() if error not in blamed)


def test_the_docstring_draws_the_tree_of_errors() -> None:
    assert _drawn(errors.__doc__ or "") == _tree(errors.AnnalsError)


@pytest.mark.parametrize("error", sorted(problems.STATUS, key=str), ids=lambda error: str(error.__name__))
def test_every_error_becomes_a_problem_document(error: type[errors.AnnalsError]) -> None:
    arguments = ["x"] * (len(inspect.signature(error).parameters) if "__init__" in vars(error) else 1)
    answer = problems.of(error(*arguments))
    assert (answer.status_code, answer.headers["Content-Type"]) == (
        problems.STATUS[error].value,
        "application/problem+json",
    )
    assert (answer.headers.get("Retry-After") is not None) is (problems.STATUS[error] == HTTPStatus.SERVICE_UNAVAILABLE)


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_every_module_says_what_it_is(module: ModuleType) -> None:
    assert module.__doc__


def test_every_model_is_a_frozen_value_that_refuses_unknown_fields() -> None:
    models = [value for value in classes() if issubclass(value, BaseModel) and value is not Model]
    loose = [
        model.__name__
        for model in models
        if not (model.model_config.get("frozen") and model.model_config.get("extra") == "forbid")
    ]
    assert (len(models) > 0, loose) == (True, [])


def test_every_value_of_the_domain_is_frozen() -> None:
    loose = [
        value.__name__
        for value in classes()
        if value.__module__.startswith("chalicelib.domain.")
        and dataclasses.is_dataclass(value)
        and not value.__dataclass_params__.frozen  # type: ignore[attr-defined]
    ]
    assert loose == []


@pytest.mark.parametrize(
    ("port", "adapter"),
    [(Log, SqliteLog), (Log, DynamoLog), (Wake, Bell), (Wake, Looking)],
    ids=lambda value: value.__name__,
)
def test_an_adapter_has_the_methods_of_its_port_with_the_same_parameters(port: type, adapter: type) -> None:
    methods = [name for name, value in vars(port).items() if inspect.isfunction(value) and not name.startswith("_")]
    wanted = {name: list(inspect.signature(getattr(port, name)).parameters) for name in methods}
    assert {name: list(inspect.signature(getattr(adapter, name)).parameters) for name in methods} == wanted


def test_every_route_says_what_it_is_and_answers_problems() -> None:
    silent = [
        f"{method} {path}"
        for path, methods in app.app.routes.items()
        for method, entry in methods.items()
        if not entry.view_function.__doc__ or not hasattr(entry.view_function, "__wrapped__")
    ]
    assert silent == []


def test_every_route_needs_a_token_but_those_that_hold_nothing_or_check_for_themselves() -> None:
    public = {
        (method, path)
        for path, methods in app.app.routes.items()
        for method, entry in methods.items()
        if entry.authorizer is None
    }
    assert public == {
        ("GET", "/"),
        ("GET", "/asyncapi.json"),
        ("GET", "/console/{path+}"),
        ("GET", "/health"),
        ("GET", "/openapi.json"),
        ("GET", "/reports/{name}"),
        ("POST", "/sign-in"),
    }


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_modules_are_small_and_well_named(source: Path) -> None:
    assert source.stem not in VAGUE
    assert len(source.read_text().splitlines()) <= LONGEST_MODULE
    long = [
        f"{function.name} has {(function.end_lineno or 0) - function.lineno + 1} lines"
        for function in functions(source)
        if (function.end_lineno or 0) - function.lineno + 1 > LONGEST_FUNCTION
    ]
    assert long == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_no_error_loses_its_cause(source: Path) -> None:
    """What is raised while another error is handled says from what, or that it is from none."""
    lost = [
        f"line {raised.lineno}"
        for handler in ast.walk(ast.parse(source.read_text()))
        if isinstance(handler, ast.ExceptHandler)
        for raised in ast.walk(handler)
        if isinstance(raised, ast.Raise) and raised.exc is not None and raised.cause is None
    ]
    assert lost == []


TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
SKIPS = {"pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.importorskip"}


@pytest.mark.parametrize("test", TESTS, ids=lambda test: str(test.relative_to(ROOT)))
def test_tests_do_not_sleep_patch_or_skip(test: Path) -> None:
    forbidden = {"time.sleep", "mock.patch", "pytest.xfail"} | SKIPS
    used = {
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(test.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in forbidden
    }
    assert used == set()


def test_only_the_want_of_a_browser_of_node_of_a_shell_or_of_disks_skips_a_test() -> None:
    modules = [path for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts]
    skips = {
        str(module.relative_to(ROOT))
        for module in modules
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in SKIPS
    }
    conftests = {f"tests/{name}/conftest.py" for name in ("http", "client", "clients", "console")}
    assert skips <= {*conftests, "tests/faults/disks.py"}


@pytest.mark.parametrize("test", TESTS, ids=lambda test: str(test.relative_to(ROOT)))
def test_the_name_of_a_test_is_a_sentence(test: Path) -> None:
    names = [function.name for function in functions(test) if function.name.startswith("test_")]
    assert [name for name in names if name.count("_") < 3] == []
    assert len(names) == len(set(names))


def _drawn(text: str) -> list[tuple[int, str]]:
    """The tree in a docstring: depth and name of each class."""
    lines = [line for line in text.splitlines() if line.startswith("AnnalsError") or "── " in line]
    return [
        (0, "AnnalsError") if "── " not in line else (line.index("── ") // 4 + 1, line.split("── ")[1].split()[0])
        for line in lines
    ]


def _tree(error: type, depth: int = 0) -> list[tuple[int, str]]:
    """The tree of the classes themselves."""
    children: list[type] = error.__subclasses__()
    below = [entry for child in children for entry in _tree(child, depth + 1)]
    return [(depth, error.__name__), *below]
