"""Import rules between the layers, and no side effects of imports."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHALICELIB = sorted((ROOT / "chalicelib").rglob("*.py"))
MODULES = [ROOT / "app.py", *CHALICELIB, *sorted((ROOT / "infra").rglob("*.py"))]
STANDARD = sys.stdlib_module_names
IMPURE = {"os", "time", "random", "secrets", "uuid", "socket", "threading", "subprocess", "asyncio", "io", "logging"}
"""Standard modules that read clocks, the environment or randomness, or do I/O."""
NOW = {"now", "utcnow", "today", "fromtimestamp"}
"""datetime methods that read the clock or the local time zone."""


@dataclass(frozen=True)
class Import:
    """One import in one module."""

    module: Path
    name: str
    line: int

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]

    @property
    def layer(self) -> str:
        """The layer of chalicelib that is imported, or an empty string."""
        parts = self.name.split(".")
        return parts[1] if parts[0] == "chalicelib" and len(parts) > 1 else ""

    def __str__(self) -> str:
        return f"{self.module.relative_to(ROOT)}:{self.line} imports {self.name}"


def imports(module: Path) -> Iterator[Import]:
    """All imports of a module, including those in functions, except type-checking imports."""
    tree = ast.parse(module.read_text())
    skipped = {id(inner) for node in ast.walk(tree) if _is_type_checking(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        match node:
            case ast.Import():
                yield from (Import(module, alias.name, node.lineno) for alias in node.names)
            case ast.ImportFrom(module=str(name), level=0):
                yield from (Import(module, _full(name, alias.name), node.lineno) for alias in node.names)
            case ast.ImportFrom():
                raise AssertionError(f"{module}:{node.lineno} imports relatively")


def layer_of(module: Path) -> str:
    """The layer of chalicelib that the module is in; empty for top-level modules."""
    parts = module.relative_to(ROOT / "chalicelib").parts
    return parts[0] if len(parts) > 1 else ""


def modules_of(layer: str) -> list[Path]:
    return [module for module in CHALICELIB if layer_of(module) == layer]


def test_domain_imports_only_stdlib_and_pydantic() -> None:
    allowed = STANDARD | {"pydantic", "pydantic_core"}
    cron = ROOT / "chalicelib" / "domain" / "expectations" / "cron.py"
    found = [i for module in modules_of("domain") for i in imports(module)]
    assert {i.name for i in imports(cron) if i.top not in STANDARD} == {"cronsim"}  # It is pure, too.
    found = [i for i in found if i.module != cron]
    assert [str(i) for i in found if i.layer != "domain" and i.top not in allowed] == []


def test_domain_uses_no_clock_environment_or_randomness() -> None:
    found = [i for module in modules_of("domain") for i in imports(module)]
    assert [str(i) for i in found if i.top in IMPURE] == []
    clock_reads = [
        f"{module.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for module in modules_of("domain")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in NOW
    ]
    assert clock_reads == []


@pytest.mark.parametrize(
    ("layer", "allowed"),
    [
        ("services", {"domain", "services"}),
        ("adapters", {"domain", "adapters", "__version__"}),
        ("lambda_events", {"domain", "http", "lambda_events"}),
    ],
)
def test_layer_imports_only_allowed_layers(layer: str, allowed: set[str]) -> None:
    found = [i for module in modules_of(layer) for i in imports(module)]
    assert found
    assert [str(i) for i in found if i.layer and i.layer not in allowed] == []


def test_only_http_routes_import_services() -> None:
    found = [i for module in modules_of("http") for i in imports(module) if i.layer]
    assert [str(i) for i in found if i.layer not in {"domain", "http", "services", "wiring", "__version__"}] == []
    beyond = [i for i in found if i.layer in {"services", "wiring"}]
    assert [str(i) for i in beyond if not {"routes", "authorizer.py", "access.py"} & set(i.module.parts)] == []


def test_app_imports_no_adapters() -> None:
    found = [i for i in imports(ROOT / "app.py") if i.top == "chalicelib"]
    allowed = {"http", "lambda_events", "wiring", "services", "domain"}
    assert [str(i) for i in found if i.layer not in allowed] == []


def test_only_adapters_wiring_and_deploy_import_the_aws_sdk() -> None:
    found = [i for module in MODULES for i in imports(module) if i.top in ("boto3", "botocore")]
    assert [str(i) for i in found if not {"adapters", "on_aws.py", "deploy"} & set(i.module.parts)] == []


def test_only_telemetry_imports_powertools() -> None:
    found = [i for module in MODULES for i in imports(module)]
    tools = [i for i in found if i.top in ("aws_lambda_powertools", "aws_xray_sdk")]
    assert {i.module for i in tools} == {ROOT / "chalicelib" / "telemetry.py"}
    importers = {i.module for i in found if i.name.startswith("chalicelib.telemetry")}
    assert {module.parent for module in importers} <= {ROOT, ROOT / "chalicelib" / "wiring"}


def test_only_the_sqlite_adapter_imports_apsw() -> None:
    found = [i for module in CHALICELIB for i in imports(module) if i.top == "apsw"]
    assert {i.module.parent for i in found} == {ROOT / "chalicelib" / "adapters" / "sqlite"}


def test_no_process_uses_the_sqlite_library_of_python() -> None:
    """It may have the WAL-reset bug, which corrupts a database that several processes write."""
    others = [module for folder in ("tests", "benchmarks", "client") for module in (ROOT / folder).rglob("*.py")]
    found = [i for module in (*MODULES, *others) if "node_modules" not in module.parts for i in imports(module)]
    assert [str(i) for i in found if i.top in ("sqlite3", "_sqlite3", "pysqlite3")] == []


def test_services_and_domain_import_no_http() -> None:
    found = [i for layer in ("domain", "services") for module in modules_of(layer) for i in imports(module)]
    assert [str(i) for i in found if i.top in ("http", "chalice", "urllib", "httptools", "jwt")] == []


def test_product_imports_neither_infra_nor_tests() -> None:
    found = [i for module in CHALICELIB for i in imports(module)]
    assert [str(i) for i in found if i.top in ("infra", "tests", "benchmarks", "glue_jobs", "app")] == []


def test_glue_jobs_and_templates_import_no_product_code() -> None:
    others = [*(ROOT / "glue_jobs").rglob("*.py"), *(ROOT / "infra" / "template").rglob("*.py")]
    found = [i for module in others for i in imports(module)]
    assert [str(i) for i in found if i.top in ("chalicelib", "app", "awsglue")] == []


def test_import_reads_no_environment() -> None:
    reads = [
        f"{module.relative_to(ROOT)}:{node.lineno}"
        for module in MODULES
        for node in _run_by_import(ast.parse(module.read_text()))
        if isinstance(node, ast.Call | ast.Subscript) and _reads_environment(node)
    ]
    assert reads == []


def test_import_opens_no_file_and_no_socket() -> None:
    """An audit hook records file and socket access by our own modules."""
    names = [".".join(module.relative_to(ROOT).with_suffix("").parts) for module in MODULES]
    # sam_expand runs in another venv, without our packages.
    names = [name.removesuffix(".__init__") for name in names if not name.endswith(("__main__", "build.sam_expand"))]
    script = f"""
import sys
noticed = []
def notice(event, args):
    if event not in ("open", "socket.connect", "socket.bind", "subprocess.Popen", "os.mkdir"):
        return
    frame = sys._getframe()
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    where = "" if frame is None else frame.f_code.co_filename
    is_ours = where.startswith({str(ROOT)!r}) and ".venv" not in where
    if is_ours and not str(args[0]).endswith((".py", ".pyc")):
        noticed.append((event, str(args[0])))
sys.addaudithook(notice)
import importlib
for name in {names!r}:
    importlib.import_module(name)
print(noticed)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_app_import_loads_no_heavy_modules() -> None:
    heavy = [
        "cronsim",
        "jwt",
        "jinja2",
        "boto3",
        "botocore",
        "apsw",
        "chalicelib.wiring.notifications",
        "chalicelib.services.notifications.preview",
    ]
    script = f"import sys, app; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def _full(name: str, alias: str) -> str:
    """`from chalicelib.http import tokens` imports a module too."""
    return f"{name}.{alias}" if name.partition(".")[0] in ("chalicelib", "infra") else name


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _run_by_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes executed at import: everything except function bodies."""
    yield tree
    for name, value in ast.iter_fields(tree):
        if name == "body" and isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _run_by_import(child)


def _reads_environment(node: ast.Call | ast.Subscript) -> bool:
    """Matches `os.environ[…]`, `os.environ.get(…)` and `os.getenv(…)`, but not a mere reference to `os.environ`."""
    what = ast.unparse(node.func if isinstance(node, ast.Call) else node.value)
    return what.startswith("os.environ") or what == "os.getenv"
