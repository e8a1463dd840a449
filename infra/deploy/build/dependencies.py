"""Installs the packages of `requirements.txt` for Lambda, once per version of that file."""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

LAMBDA_PLATFORM: Final = (
    "--platform",
    "manylinux2014_x86_64",
    "--platform",
    "manylinux_2_28_x86_64",
    "--implementation",
    "cp",
)


def install_dependencies(requirements: Path, cache: Path) -> Path:
    """The directory with the installed packages. Only listed packages are installed: the list is complete."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(f"{python}\n{requirements.read_text()}".encode()).hexdigest()[:16]
    target = cache / f"dependencies-{digest}"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            staging = Path(folder) / "staging"
            _install(requirements, staging, python)
            _move(staging, target)
    return target


def _install(requirements: Path, target: Path, python: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
    options = ["--only-binary=:all:", "--python-version", python, *LAMBDA_PLATFORM, "--no-compile"]
    process = subprocess.run(  # noqa: S603
        [*command, *options, "--target", str(target), "-r", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"pip could not install the dependencies for Lambda: {process.stderr[-2000:]}")


def _move(staging: Path, target: Path) -> None:
    try:
        staging.rename(target)
    except OSError:
        # A concurrent build may have created the same directory first.
        if not target.exists():
            raise
