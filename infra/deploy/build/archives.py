"""Builds the archives for Lambda, with only the modules that functions import.

The same files always produce the same bytes, so unchanged code is not deployed again. Modules are compiled here,
because Lambda does not keep compiled modules and would compile them at every cold start. Third-party packages are
shipped as compiled modules only.
"""

import compileall
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from py_compile import PycInvalidationMode
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


def write_archives(app: Path, dependencies: Path, functions: Path, authorizer: Path) -> None:
    """Write two archives of the app with its dependencies: with the packages that verify tokens, and without."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(dependencies, tree)
        with zipfile.ZipFile(app) as archive:
            archive.extractall(tree)
        remove(tree, NEVER_IMPORTED)
        _compile(tree)
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


def _compile(tree: Path) -> None:
    for path in tree.iterdir():
        is_own = path.name in OWN_CODE
        compiler = compileall.compile_dir if path.is_dir() else compileall.compile_file
        is_compiled = compiler(
            path,
            quiet=2,
            legacy=not is_own,
            stripdir=str(tree),
            prependdir=LAMBDA_TASK_ROOT,
            # File times in an archive are fixed, so they cannot invalidate a compiled module.
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )
        if not is_compiled:
            raise RuntimeError(f"{path.name} does not compile")
        if not is_own:
            remove(tree, [f"{path.name}/**/*.py" if path.is_dir() else path.name.removesuffix(".py") + ".py"])
