"""Builds the archives for Lambda, with only the modules that functions import.

The same files always produce the same bytes, so unchanged code is not deployed again. Modules are compiled here,
because Lambda does not keep compiled modules and would compile them at every cold start, which doubles its time.
Third-party packages are then shipped as compiled modules only.
"""

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

TOKEN_PACKAGES: Final = ("jwt", "cryptography", "cffi", "_cffi_backend*", "pycparser")
"""Packages that verify tokens. They are larger than all others together, and few functions need them."""
NEVER_IMPORTED: Final = (
    "*.dist-info",
    "*.data",
    "bin",
    "**/__pycache__",
    "**/*.pyi",
    "**/py.typed",
    "**/*.c",
    "pydantic/v1",
    "pydantic/mypy*",
    "aws_lambda_powertools/event_handler",
    "aws_lambda_powertools/middleware_factory",
    "aws_lambda_powertools/metrics/provider/datadog",
    "aws_lambda_powertools/utilities/[!_j]*",
    "aws_xray_sdk/ext/[!_bru]*/",
    "aws_xray_sdk/ext/bottle",
    "aws_xray_sdk/ext/requests",
)
"""Glob patterns of files in third-party packages that no function imports."""
OWN_CODE: Final = ("app.py", "chalicelib")
LAMBDA_TASK_ROOT: Final = "/var/task"
"""Where Lambda extracts an archive. Tracebacks show these paths."""
_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)


def write_archives(app: Path, dependencies: Path, functions: Path, authorizer: Path, python: Path | None) -> None:
    """Write two archives of the app with its dependencies: with the packages that verify tokens, and without.

    `python` compiles the modules. Without it the archives have only sources.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(dependencies, tree)
        with zipfile.ZipFile(app) as archive:
            archive.extractall(tree)
        remove(tree, NEVER_IMPORTED)
        if python:
            _compile(tree, python)
        write_archive(tree, authorizer)
        remove(tree, TOKEN_PACKAGES)
        write_archive(tree, functions)


def write_archive(tree: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as output:
        for path in sorted(filter(Path.is_file, tree.rglob("*"))):
            entry = zipfile.ZipInfo(str(path.relative_to(tree)), _FIXED_TIME)
            entry.external_attr = 0o644 << 16
            output.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def remove(tree: Path, patterns: Iterable[str]) -> None:
    for path in [match for pattern in patterns for match in tree.glob(pattern)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def unpacked_bytes(archive: Path) -> int:
    with zipfile.ZipFile(archive) as opened:
        return sum(entry.file_size for entry in opened.infolist())


def has_compiled_modules(archive: Path) -> bool:
    with zipfile.ZipFile(archive) as opened:
        return any(name.endswith(".pyc") for name in opened.namelist())


def _compile(tree: Path, python: Path) -> None:
    own = [tree / name for name in OWN_CODE]
    third_party = [path for path in sorted(tree.iterdir()) if path not in own]
    _run_compiler(tree, python, own)
    _run_compiler(tree, python, third_party, "-b")
    for path in third_party:
        remove(tree, [f"{path.name}/**/*.py" if path.is_dir() else path.name.removesuffix(".py") + ".py"])


def _run_compiler(tree: Path, python: Path, paths: Iterable[Path], *options: str) -> None:
    command = [str(python), "-I", "-m", "compileall", "-q", "-s", str(tree), "-p", LAMBDA_TASK_ROOT, *options]
    # File times in an archive are fixed, so they cannot invalidate a compiled module.
    validation = ["--invalidation-mode", "unchecked-hash"]
    process = subprocess.run([*command, *validation, *paths], capture_output=True, text=True, check=False)  # noqa: S603
    if process.returncode:
        raise RuntimeError(f"some modules do not compile: {process.stdout[-2000:]}{process.stderr[-2000:]}")
