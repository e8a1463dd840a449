"""Rules that linters do not know: errors and statuses, frozen values, ports and adapters, sizes of modules."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from collections import Counter
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
from chalicelib.services.feeds.notifiers import CommitNotifier, PollingNotifier
from chalicelib.services.ports import ChangeNotifier, Log

ROOT = Path(__file__).parent.parent
MAX_MODULE_LINES = 400
MAX_FOLDER_MODULES = 13
MAX_TEST_NAME = 60
VAGUE = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
SOURCES = [
    ROOT / "app.py",
    *(path for top in ("chalicelib", "infra", "glue_jobs", "client") for path in sorted((ROOT / top).rglob("*.py"))),
]
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
PING_PATHS = ("/ping/{key}/{name}", "/ping/{key}/{name}/{signal}")
"""The key in the path takes the place of a token."""
SKIPS = {"pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.importorskip"}


def error_classes() -> list[type[errors.AnnalsError]]:
    """All error classes in order of definition."""
    members = [value for value in vars(errors).values() if inspect.isclass(value)]
    return [value for value in members if issubclass(value, errors.AnnalsError)]


def modules() -> list[ModuleType]:
    infos = pkgutil.walk_packages(chalicelib.__path__, "chalicelib.")
    return [importlib.import_module(info.name) for info in infos]


def classes() -> Iterator[type]:
    for module in modules():
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                yield value


def functions(source: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.FunctionDef))


def test_every_leaf_error_has_a_status() -> None:
    with_status = set(problems.STATUS)
    without = set(error_classes()) - with_status
    assert [error.__name__ for error in without if not error.__subclasses__()] == []
    assert with_status <= set(error_classes())


def test_refusals_are_4xx_and_other_errors_5xx() -> None:
    client_errors = {error for error, status in problems.STATUS.items() if 400 <= status < 500}
    assert client_errors == {error for error in problems.STATUS if issubclass(error, errors.Refused)}
    assert all(status >= 500 for error, status in problems.STATUS.items() if error not in client_errors)


def test_errors_docstring_shows_the_class_tree() -> None:
    assert _documented_tree(errors.__doc__ or "") == _class_tree(errors.AnnalsError)


@pytest.mark.parametrize("error", sorted(problems.STATUS, key=str), ids=lambda error: str(error.__name__))
def test_error_becomes_problem_document(error: type[errors.AnnalsError]) -> None:
    arguments = ["x"] * (len(inspect.signature(error).parameters) if "__init__" in vars(error) else 1)
    answer = problems.problem_from_error(error(*arguments))
    assert (answer.status_code, answer.headers["Content-Type"]) == (
        problems.STATUS[error].value,
        "application/problem+json",
    )
    assert (answer.headers.get("Retry-After") is not None) is (problems.STATUS[error] == HTTPStatus.SERVICE_UNAVAILABLE)


def test_models_are_frozen_and_forbid_extra_fields() -> None:
    models = [value for value in classes() if issubclass(value, BaseModel) and value is not Model]
    mutable = [
        model.__name__
        for model in models
        if not (model.model_config.get("frozen") and model.model_config.get("extra") == "forbid")
    ]
    assert (len(models) > 0, mutable) == (True, [])


def test_domain_dataclasses_are_frozen() -> None:
    mutable = [
        value.__name__
        for value in classes()
        if value.__module__.startswith("chalicelib.domain.")
        and dataclasses.is_dataclass(value)
        and not value.__dataclass_params__.frozen  # type: ignore[attr-defined]
    ]
    assert mutable == []


@pytest.mark.parametrize(
    ("port", "adapter"),
    [(Log, SqliteLog), (Log, DynamoLog), (ChangeNotifier, CommitNotifier), (ChangeNotifier, PollingNotifier)],
    ids=lambda value: value.__name__,
)
def test_adapter_methods_have_the_ports_parameters(port: type, adapter: type) -> None:
    methods = [name for name, value in vars(port).items() if inspect.isfunction(value) and not name.startswith("_")]
    expected = {name: list(inspect.signature(getattr(port, name)).parameters) for name in methods}
    assert {name: list(inspect.signature(getattr(adapter, name)).parameters) for name in methods} == expected


def test_routes_have_docstrings_and_render_problems() -> None:
    missing = [
        f"{method} {path}"
        for path, methods in app.app.routes.items()
        for method, entry in methods.items()
        if not entry.view_function.__doc__ or not hasattr(entry.view_function, "__wrapped__")
    ]
    assert missing == []


def test_only_listed_routes_are_public() -> None:
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
        *((method, path) for path in PING_PATHS for method in ("GET", "HEAD", "POST")),
        ("GET", "/reports/{name}"),
        ("POST", "/sign-in"),
    }


def test_modules_are_short_and_precisely_named() -> None:
    vague = [str(source.relative_to(ROOT)) for source in SOURCES if source.stem in VAGUE]
    lines = {str(source.relative_to(ROOT)): len(source.read_text().splitlines()) for source in SOURCES}
    assert (vague, {name: count for name, count in lines.items() if count > MAX_MODULE_LINES}) == ([], {})


def test_folders_have_few_modules() -> None:
    counts = Counter(str(source.parent.relative_to(ROOT)) for source in SOURCES if source.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > MAX_FOLDER_MODULES} == {}


def test_tests_never_sleep_patch_or_skip() -> None:
    forbidden = {"time.sleep", "mock.patch", "pytest.xfail"} | SKIPS
    used = {
        f"{test.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for test in TESTS
        for node in ast.walk(ast.parse(test.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in forbidden
    }
    assert used == set()


def test_skips_only_for_missing_programs_or_disk() -> None:
    modules = [path for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts]
    skips = {
        str(module.relative_to(ROOT))
        for module in modules
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in SKIPS
    }
    conftests = {f"tests/{name}/conftest.py" for name in ("http/openapi", "client", "clients", "console", "webhooks")}
    assert skips <= {*conftests, "tests/conftest.py", "tests/faults/disks.py"}


def test_test_names_are_short() -> None:
    names = [function.name for test in TESTS for function in functions(test) if function.name.startswith("test_")]
    assert [name for name in names if len(name) > MAX_TEST_NAME] == []


def _documented_tree(text: str) -> list[tuple[int, str]]:
    """Depth and name of each class in the tree of a docstring."""
    lines = [line for line in text.splitlines() if line.startswith("AnnalsError") or "── " in line]
    return [
        (0, "AnnalsError") if "── " not in line else (line.index("── ") // 4 + 1, line.split("── ")[1].split()[0])
        for line in lines
    ]


def _class_tree(error: type, depth: int = 0) -> list[tuple[int, str]]:
    """Depth and name of each subclass."""
    children: list[type] = error.__subclasses__()
    subtree = [entry for child in children for entry in _class_tree(child, depth + 1)]
    return [(depth, error.__name__), *subtree]
