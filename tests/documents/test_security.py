"""SECURITY.md names a test for each attack: it has to be there."""

import ast
import re
from pathlib import Path

import pytest

from tests.documents.test_docs import LINK

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "SECURITY.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def named() -> dict[str, list[str]]:
    """The tests that the document names, by file."""
    found: dict[str, list[str]] = {}
    for file, test in NAMED.findall(DOCUMENT.read_text()):
        found.setdefault(file, []).append(test)
    return found


@pytest.mark.parametrize("file", named())
def test_every_test_that_is_named_is_there(file: str) -> None:
    there = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert [test for test in named()[file] if test not in there] == []


def test_every_attack_has_a_test_and_every_module_of_attacks_is_named() -> None:
    attacks = DOCUMENT.read_text().partition("## Attacks, and the tests that try them")[2]
    rows = [row for row in attacks.splitlines() if row.startswith("| ")]
    assert [row for row in rows if not NAMED.search(row) and not row.endswith("| test |")] == []
    assert {str(file.relative_to(ROOT)) for file in (ROOT / "tests" / "attacks").glob("test_*.py")} <= named().keys()


def test_its_links_lead_somewhere() -> None:
    assert [link for link in LINK.findall(DOCUMENT.read_text()) if not (ROOT / link).exists()] == []
