"""The runtimes that packages are built for."""

import subprocess
from pathlib import Path

import pytest

from infra.deploy.build.target import LOCAL, TARGETS, Target


def test_target_on_amazon_linux_2023_admits_glibc_2_28() -> None:
    assert TARGETS["arm64"].platforms == ("manylinux2014_aarch64", "manylinux_2_28_aarch64")
    assert TARGETS["x86_64"].platforms == ("manylinux2014_x86_64", "manylinux_2_28_x86_64")


def test_target_on_amazon_linux_2_admits_older_glibc_only() -> None:
    assert Target("3.11", "x86_64").platforms == ("manylinux2014_x86_64",)


def test_find_python_has_version_of_target() -> None:
    python = LOCAL.find_python()
    assert python is not None
    output = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
    assert output.startswith(f"Python {LOCAL.python}.")


def test_find_python_skips_command_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of pyenv exist for versions that are not selected, and fail."""
    bin_folder = tmp_path / ".pyenv" / "versions" / "3.99.1" / "bin"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    write_command(tmp_path / "python3.99", "exit 127")
    assert Target("3.99", "arm64").find_python() is None
    bin_folder.mkdir(parents=True)
    write_command(bin_folder / "python", "echo cp399 final")
    assert Target("3.99", "arm64").find_python() == bin_folder / "python"


@pytest.mark.parametrize("described", ["cp399 candidate", "cp398 final", "pypy399 final"])
def test_find_python_skips_other_versions(described: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    write_command(tmp_path / "python3.99", f"echo {described}")
    assert Target("3.99", "arm64").find_python() is None


def write_command(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
