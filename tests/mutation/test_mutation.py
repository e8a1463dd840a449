"""The mutation tool: the operators, the choice by seed, and trials in a copy of the tree."""

from pathlib import Path

import pytest

from tests.mutation.__main__ import ROOT, choose
from tests.mutation.covering_tests import GROUPS, stages
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.operators import find_mutations


@pytest.mark.parametrize(
    ("source", "mutated"),
    [
        ("a < b", {"(a >= b)", "(a <= b)"}),
        ("a == b", {"(a != b)"}),
        ("a and b", {"(a or b)"}),
        ("a + 1", {"(a - 1)", "a + 2"}),
        ("f(a, b)", {"(f(b, a))", "pass"}),
        ("min(a, b)", {"(max(a, b))", "pass"}),
        ("x = not a", {"x = (a)"}),
        ("x += a", {"pass"}),
        ("if a:\n    x = True", {"if (not (a)):\n    x = True", "if a:\n    x = False"}),
        ("x = [a for a in b if a]", {"x = [a for a in b if (not (a))]"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("x = 'é'; y = 1", {"x = 'é'; y = 2"}),
    ],
)
def test_find_mutations_changes_one_place(source: str, mutated: set[str]) -> None:
    found = find_mutations("module.py", source.encode())
    assert {mutation.apply(source.encode()).decode() for mutation in found} == mutated


@pytest.mark.parametrize(
    "source", ["x: int = y", "f'{a + 1}'", "_log.info(a, b)", "assert a < b", "import a", "'text'"]
)
def test_find_mutations_skips_code_without_behaviour(source: str) -> None:
    assert find_mutations("module.py", source.encode()) == []


def test_choose_same_seed_gives_same_mutations() -> None:
    first, again, other = (choose(["domain", "server"], 21, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert [sum(mutation.path.startswith(GROUPS[group]) for mutation in first) for group in ("domain", "server")] == [
        11,
        10,
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_every_module_with_mutations_has_covering_tests(group: str) -> None:
    for path in (ROOT / GROUPS[group]).rglob("*.py"):
        assert stages(ROOT, str(path.relative_to(ROOT))), path


def test_equivalent_mutations_name_a_file_and_reason() -> None:
    for key, reason in EQUIVALENT.items():
        assert Path(ROOT / key.partition(":")[0]).is_file(), key
        assert reason.endswith("."), key
