"""Small disks and read-only directories. Only root can mount them. Tests of other users are skipped."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A small disk, mounted at a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def free_bytes(self) -> int:
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Use all space except `leave` bytes."""
        with (self.path / "ballast").open("ab") as ballast:
            # The disk allocates whole blocks, so the rest of the last block is not free either.
            os.posix_fallocate(ballast.fileno(), ballast.tell(), max(self.free_bytes - leave, 1))

    def clear(self) -> None:
        """Free the space again."""
        (self.path / "ballast").unlink()


@contextmanager
def mount_small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    path.mkdir(parents=True)
    with _mounted("-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(path)):
        yield SmallDisk(path)


@contextmanager
def mount_read_only(path: Path) -> Iterator[None]:
    """Make a directory read-only, even for root."""
    with _mounted("--bind", str(path), str(path)):
        _mount("-o", "remount,ro,bind", str(path))
        yield


@contextmanager
def _mounted(*arguments: str) -> Iterator[None]:
    _mount(*arguments)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", arguments[-1]], check=True)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount a disk here: {done.stderr.strip()}")
