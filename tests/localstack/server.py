"""Runs LocalStack on this machine's loopback interface, without Docker.

LocalStack would download DynamoDB Local, Java and the program that starts functions in containers. It finds substitutes
where it would install them: DynamoDB Local of `tests/dynamodb_local`, and a program and a `docker` command that do
nothing. So functions can be created, but not run.
"""

import os
import shlex
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import boto3  # type: ignore[import-untyped]

from infra.deploy.local.emulator import EmulatorNotStarted, wait_for_exit
from tests.dynamodb_local import server as dynamodb_local

PYTHON = Path(__file__).parents[2] / ".venv-localstack" / "bin" / "python"
INSTALLED = PYTHON.parents[1] / "ready"
LAMBDA_RUNTIME = "lambda-runtime/v0.1.41-pre/x86_64/var/rapid/init"
"""Where LocalStack 4.14 installs the program that starts functions."""
DYNAMODB_PID = "dynamodb-local.pid"
REGION = "eu-central-1"
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
START_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.1


def missing() -> str | None:
    """What prevents LocalStack from running here, if anything."""
    if not INSTALLED.exists():
        return "LocalStack is not installed; `make install` does it if there is a Python 3.13, from a package or pyenv"
    return dynamodb_local.missing()


@contextmanager
def run_localstack(home: Path, port: int) -> Iterator[str]:
    """Run a LocalStack that keeps its files in `home`. Yields its endpoint."""
    if reason := missing():
        raise EmulatorNotStarted(reason)
    address = f"http://127.0.0.1:{port}"
    _install_substitutes(home)
    output = home / "localstack.txt"
    with output.open("wb") as sink:
        command = [str(PYTHON), "-m", "localstack.runtime.main"]
        process = subprocess.Popen(
            command, cwd=home, env=_environment(home, port), stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(address):
            if wait_for_exit(process, POLL_INTERVAL_S) or time.monotonic() > deadline:
                raise EmulatorNotStarted(f"LocalStack did not start. Its output:\n{output.read_text()[-2000:]}")
        # The first request starts DynamoDB Local, which may take longer than a client of Annals waits.
        dynamodb = boto3.client("dynamodb", REGION, endpoint_url=address, **CREDENTIALS)
        dynamodb.list_tables()
        dynamodb.close()
        yield address
    finally:
        # A clean shutdown would take seconds, and there is nothing to save. DynamoDB Local has its own process group.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((home / DYNAMODB_PID).read_text()), signal.SIGKILL)


def _environment(home: Path, port: int) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "FILESYSTEM_ROOT": str(home),
        # Otherwise LocalStack would use /var/lib/localstack in a container of a continuous integration.
        "OVERRIDE_IN_DOCKER": "0",
        # The default server ignores the host.
        "GATEWAY_SERVER": "hypercorn",
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        # The streams of DynamoDB Local. The default needs a Kinesis emulator.
        "PROVIDER_OVERRIDE_DYNAMODB": "v2",
        "DOCKER_CMD": str(home / "docker"),
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DNS_ADDRESS": "0",
    }


def _install_substitutes(home: Path) -> None:
    libraries = home / "var" / "lib" / "localstack" / "lib"
    _write_script(home / "docker", "case $1 in ps | pull) exit 0 ;; *) exit 1 ;; esac")
    _write_script(libraries / LAMBDA_RUNTIME, "exit 1")
    # LocalStack only looks whether the jar exists, then runs `java ... -port N`.
    jar = libraries / "dynamodb-local" / "2" / "DynamoDBLocal.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    command = shlex.join(dynamodb_local.command(port="PORT")).replace("PORT", "$2")
    _write_script(
        libraries / "java" / "21" / "bin" / "java",
        f"while [ $1 != -port ]; do shift; done\necho $$ > {shlex.quote(str(home / DYNAMODB_PID))}\nexec {command}",
    )


def _write_script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"{address}/_localstack/health", timeout=5).close()
    except OSError:
        return False
    return True
