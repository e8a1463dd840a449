"""What the client may know: Python, httpx, itself."""

import ast
import sys
from pathlib import Path

import pytest

from tests.test_layers import imports

ROOT = Path(__file__).parents[2]
CLIENT = sorted((ROOT / "client" / "annals_client").rglob("*.py"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
LONGEST_MODULE = 300
LONGEST_FUNCTION = 50


def test_the_client_knows_only_python_httpx_and_itself() -> None:
    found = [i for module in CLIENT for i in imports(module)]
    assert [str(i) for i in found if i.top not in sys.stdlib_module_names | {"httpx", "annals_client"}] == []


def test_examples_know_only_python_and_the_client() -> None:
    found = [i for module in EXAMPLES for i in imports(module)]
    assert [str(i) for i in found if i.top not in sys.stdlib_module_names | {"annals_client"}] == []


def test_what_calls_do_is_apart_from_doing_it() -> None:
    pure = [ROOT / "client/annals_client/sans_io.py", *(ROOT / "client/annals_client/calls").glob("*.py")]
    found = [i for module in pure for i in imports(module)]
    assert [str(i) for i in found if i.top in {"httpx", "asyncio", "os", "socket", "threading"}] == []


@pytest.mark.parametrize("module", [*CLIENT, *EXAMPLES], ids=lambda module: str(module.relative_to(ROOT)))
def test_modules_and_functions_are_short(module: Path) -> None:
    text = module.read_text()
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    assert len(text.splitlines()) <= LONGEST_MODULE
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}
