"""The Lambda runtime that a package is built for: a version of Python and a processor architecture."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Target:
    """A runtime. Wheels for it are chosen by their names, so it needs no Python of its version on this machine."""

    python: str
    """Major and minor version."""
    architecture: str
    """As Lambda names it: `arm64` or `x86_64`."""

    @property
    def runtime(self) -> str:
        return f"python{self.python}"

    @property
    def abi(self) -> str:
        """The tag of binaries for this version of Python."""
        return f"cp{self.python.replace('.', '')}"

    @property
    def platforms(self) -> tuple[str, ...]:
        """The tags of wheels with binaries that the runtime's C library can load."""
        # Amazon Linux 2 has glibc 2.26, Amazon Linux 2023 has 2.34.
        is_amazon_linux_2 = self.python == "3.11"
        versions = ("manylinux2014",) if is_amazon_linux_2 else ("manylinux2014", "manylinux_2_28")
        machine = {"arm64": "aarch64"}.get(self.architecture, self.architecture)
        return tuple(f"{version}_{machine}" for version in versions)

    def find_python(self) -> Path | None:
        """A Python of this version on this machine. It compiles modules for any architecture."""
        return next((path for path in self._candidates() if _describe_python(path) == f"{self.abi} final"), None)

    def _candidates(self) -> Iterator[Path]:
        yield Path(sys.executable)
        if found := shutil.which(self.runtime):
            yield Path(found)
        yield from sorted(Path.home().glob(f".pyenv/versions/{self.python}.*/bin/python"))


def _describe_python(path: Path) -> str:
    """The ABI and the release level of a CPython. Prereleases may compile modules that the release cannot load."""
    script = "import sys; print(sys.implementation.cache_tag.replace('ython-', ''), sys.version_info.releaselevel)"
    # The command may be a pyenv shim, which fails if the version is not selected.
    process = subprocess.run([path, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)  # noqa: S603
    return process.stdout.strip()


LOCAL: Final = Target(
    f"{sys.version_info.major}.{sys.version_info.minor}",
    {"aarch64": "arm64"}.get(platform.machine(), platform.machine()),
)
"""For emulators, which run functions with the Python of this machine."""
TARGETS: Final = {"arm64": Target("3.13", "arm64"), "x86_64": Target("3.13", "x86_64"), "local": LOCAL}
"""Targets by the names that the commands accept."""
DEFAULT_ARCH: Final = "arm64"
"""The default for AWS, where it costs 20 % less than `x86_64`."""
