"""SECURITY.md names an existing test for each attack."""

import ast
import re
from pathlib import Path

import pytest

from tests.documents.test_docs import LINK

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "SECURITY.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def named_tests() -> dict[str, list[str]]:
    """The tests that the document names, by file."""
    tests: dict[str, list[str]] = {}
    for file, test in NAMED.findall(DOCUMENT.read_text()):
        tests.setdefault(file, []).append(test)
    return tests


@pytest.mark.parametrize("file", named_tests())
def test_named_tests_exist(file: str) -> None:
    defined = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert [test for test in named_tests()[file] if test not in defined] == []


def test_every_attack_names_a_test() -> None:
    attacks = DOCUMENT.read_text().partition("## Attacks and their tests")[2]
    rows = [row for row in attacks.splitlines() if row.startswith("| ")]
    assert [row for row in rows if not NAMED.search(row) and not row.endswith("| test |")] == []
    assert {
        str(file.relative_to(ROOT)) for file in (ROOT / "tests" / "attacks").glob("test_*.py")
    } <= named_tests().keys()


def test_links_point_to_existing_files() -> None:
    assert [link for link in LINK.findall(DOCUMENT.read_text()) if not (ROOT / link).exists()] == []
