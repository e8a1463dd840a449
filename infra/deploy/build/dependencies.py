"""Installs the packages of `requirements.txt` for a Lambda runtime, once per version of that file."""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.deploy.build.target import Target


def install_dependencies(requirements: Path, cache: Path, target: Target) -> Path:
    """The directory with the installed packages. Only listed packages are installed: the list is complete."""
    version = f"{target.python}\n{target.platforms}\n{requirements.read_text()}"
    folder = cache / f"dependencies-{hashlib.sha256(version.encode()).hexdigest()[:16]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            staging = Path(scratch) / "staging"
            _install(requirements, staging, target)
            _move(staging, folder)
    return folder


def _install(requirements: Path, folder: Path, target: Target) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
    platforms = [option for tag in target.platforms for option in ("--platform", tag)]
    # Without an ABI, pip takes the flags of the Python that runs it.
    python = ["--implementation", "cp", "--python-version", target.python, "--abi", target.abi]
    options = ["--only-binary=:all:", *platforms, *python, "--no-compile"]
    process = subprocess.run(  # noqa: S603
        [*command, *options, "--target", str(folder), "-r", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"pip could not install the dependencies for Lambda: {process.stderr[-2000:]}")


def _move(staging: Path, folder: Path) -> None:
    try:
        staging.rename(folder)
    except OSError:
        # A concurrent build may have created the same directory first.
        if not folder.exists():
            raise
