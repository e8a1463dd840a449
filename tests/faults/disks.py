"""Disks of a few megabytes, and others that nobody can write to. Only root can mount them: others skip, and say so."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A disk of the test's own, mounted at a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def free(self) -> int:
        """How many bytes are left."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Take all space but so many bytes."""
        with (self.path / "ballast").open("ab") as ballast:
            # Whole blocks are given out: what is left of the last one is not for others.
            os.posix_fallocate(ballast.fileno(), ballast.tell(), max(self.free - leave, 1))

    def clear(self) -> None:
        """Give it back."""
        (self.path / "ballast").unlink()


@contextmanager
def disk(path: Path, megabytes: int) -> Iterator[Disk]:
    """A small disk."""
    path.mkdir(parents=True)
    with _mounted("-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(path)):
        yield Disk(path)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """A directory that nobody can write to, not even root."""
    with _mounted("--bind", str(path), str(path)):
        _mount("-o", "remount,ro,bind", str(path))
        yield


@contextmanager
def _mounted(*how: str) -> Iterator[None]:
    _mount(*how)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", how[-1]], check=True)


def _mount(*how: str) -> None:
    done = subprocess.run(["mount", *how], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
