"""Archives: what Lambda gets, and no more of it than functions import.

The same files make the same archive, byte for byte, so what has not changed is not deployed again. Modules are compiled
here: Lambda keeps nothing of what it compiles, and would compile them again at every cold start. Of packages that are
not ours only the compiled modules are kept.
"""

import compileall
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

SIGNATURES: Final = ("jwt", "cryptography", "cffi", "_cffi_backend*", "pycparser")
"""What checks tokens. It is larger than all the rest, and only the authorizer needs it."""
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
"""What is in packages and no function asks for."""
OURS: Final = ("app.py", "chalicelib")
RUN_FROM: Final = "/var/task"
"""Where Lambda puts an archive: tracebacks name files as they are there."""
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)


def write_both(app: Path, dependencies: Path, functions: Path, authorizer: Path) -> None:
    """Make two archives of the app and what it depends on: the authorizer's, and that of all other functions."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(dependencies, tree)
        with zipfile.ZipFile(app) as archive:
            archive.extractall(tree)
        remove(tree, NEVER_IMPORTED)
        _compile(tree)
        write(tree, authorizer)
        remove(tree, SIGNATURES)
        write(tree, functions)


def write(tree: Path, archive: Path) -> None:
    """Make an archive of the files of a tree."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for path in sorted(filter(Path.is_file, tree.rglob("*"))):
            entry = zipfile.ZipInfo(str(path.relative_to(tree)), _NO_TIME)
            entry.external_attr = 0o644 << 16
            made.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def remove(tree: Path, patterns: Iterable[str]) -> None:
    """Remove files and directories from a tree."""
    for path in [found for pattern in patterns for found in tree.glob(pattern)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def unpacked_bytes(archive: Path) -> int:
    """How large the files of an archive are."""
    with zipfile.ZipFile(archive) as opened:
        return sum(entry.file_size for entry in opened.infolist())


def _compile(tree: Path) -> None:
    for path in tree.iterdir():
        is_ours = path.name in OURS
        compiler = compileall.compile_dir if path.is_dir() else compileall.compile_file
        is_compiled = compiler(
            path,
            quiet=2,
            legacy=not is_ours,
            stripdir=str(tree),
            prependdir=RUN_FROM,
            # The times of files in an archive say nothing.
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )
        if not is_compiled:
            raise RuntimeError(f"{path.name} of the package does not compile")
        if not is_ours:
            remove(tree, [f"{path.name}/**/*.py" if path.is_dir() else path.name.removesuffix(".py") + ".py"])
