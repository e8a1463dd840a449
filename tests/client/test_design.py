"""Import rules of the client and the examples."""

import sys
from pathlib import Path

from tests.test_layers import imports

ROOT = Path(__file__).parents[2]
CLIENT = sorted((ROOT / "client" / "annals_client").rglob("*.py"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def test_client_imports_only_stdlib_and_httpx() -> None:
    imported = [i for module in CLIENT for i in imports(module)]
    assert [str(i) for i in imported if i.top not in sys.stdlib_module_names | {"httpx", "annals_client"}] == []


def test_examples_import_only_stdlib_and_client() -> None:
    imported = [i for module in EXAMPLES for i in imports(module)]
    assert [str(i) for i in imported if i.top not in sys.stdlib_module_names | {"annals_client"}] == []


def test_sans_io_modules_do_no_io() -> None:
    pure = [ROOT / "client/annals_client/sans_io.py", *(ROOT / "client/annals_client/calls").glob("*.py")]
    imported = [i for module in pure for i in imports(module)]
    assert [str(i) for i in imported if i.top in {"httpx", "asyncio", "os", "socket", "threading"}] == []
