"""Runs ministack, an AWS emulator, on this machine's loopback interface."""

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

MINISTACK: Final = Path(__file__).parents[3] / ".venv-ministack" / "bin" / "ministack"
REGION: Final = "eu-central-1"
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 5.0
"""Short, because ministack has no state to save."""
POLL_INTERVAL_S: Final = 0.02


class EmulatorNotStarted(Exception):
    """ministack did not start. The message says why."""


@contextmanager
def run_ministack(home: Path, port: int) -> Iterator[str]:
    """Run a ministack that keeps its files in `home`. Yields its endpoint."""
    if not MINISTACK.exists():
        raise EmulatorNotStarted(f"{MINISTACK} is missing: `make .venv-ministack/ready` installs it")
    address = f"http://127.0.0.1:{port}"
    if _status(address, "/") is not None:
        raise EmulatorNotStarted(f"port {port} is in use by another program")
    home.mkdir(parents=True, exist_ok=True)
    output = home / "ministack.txt"
    with output.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603  (a program of our venv)
            [MINISTACK], env=_environment(port, home), cwd=home, stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_ministack(address):
            if wait_for_exit(process, POLL_INTERVAL_S) or time.monotonic() > deadline:
                raise EmulatorNotStarted(f"ministack did not start. Its output:\n{output.read_text()[-2000:]}")
        yield address
    finally:
        process.terminate()
        wait_for_exit(process, STOP_TIMEOUT_S)
        # Kill the process group too: functions may still be waiting for something.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_ministack(address: str) -> bool:
    return _status(address, "/_ministack/health") == http.HTTPStatus.OK


def wait_for_exit(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Whether a process exits within the timeout."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _environment(port: int, home: Path) -> dict[str, str]:
    """A closed environment: ministack sees no settings of this machine, no Docker and no second port."""
    return {
        "PATH": f"{MINISTACK.parent}:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "STATE_DIR": str(home / "state"),
        "S3_DATA_DIR": str(home / "s3"),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_REGION": REGION,
        "DOCKER_HOST": f"unix://{home}/no-docker.sock",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
    }


def _status(address: str, path: str) -> int | None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=1)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
