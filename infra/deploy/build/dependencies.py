"""Dependencies: what `requirements.txt` names, as Lambda needs it; installed once while the list stays the same."""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

PLATFORM: Final = (
    "--platform",
    "manylinux2014_x86_64",
    "--platform",
    "manylinux_2_28_x86_64",
    "--implementation",
    "cp",
)
"""That of Lambda, whatever machine this is."""


def installed(requirements: Path, cache: Path) -> Path:
    """The directory with all of them. The list names each with its version, so nothing else is looked for."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(f"{python}\n{requirements.read_text()}".encode()).hexdigest()[:16]
    place = cache / f"dependencies-{digest}"
    if not place.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "made"
            _install(requirements, made, python)
            _put(made, place)
    return place


def _install(requirements: Path, target: Path, python: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
    wanted = ["--only-binary=:all:", "--python-version", python, *PLATFORM, "--no-compile"]
    ended = subprocess.run(  # noqa: S603
        [*command, *wanted, "--target", str(target), "-r", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"the dependencies cannot be installed: {ended.stderr[-2000:]}")


def _put(made: Path, place: Path) -> None:
    """Somebody else may have been first; theirs is as good."""
    try:
        made.rename(place)
    except OSError:
        if not place.exists():
            raise
