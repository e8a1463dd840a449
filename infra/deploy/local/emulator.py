"""ministack: what stands in for AWS on this machine, for nobody but this machine."""

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
START_S: Final = 60.0
STOP_S: Final = 5.0
"""It has nothing to save."""
POLL_S: Final = 0.02


class NotStarted(Exception):
    """It did not start; the message says why."""


@contextmanager
def ministack(home: Path, port: int) -> Iterator[str]:
    """The endpoint of a ministack of our own, that keeps its files in `home`."""
    if not MINISTACK.exists():
        raise NotStarted(f"{MINISTACK} is missing: `make .venv-ministack/ready` installs it")
    address = f"http://127.0.0.1:{port}"
    if _status(address, "/") is not None:
        raise NotStarted(f"somebody else listens on port {port}")
    home.mkdir(parents=True, exist_ok=True)
    output = home / "ministack.txt"
    with output.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603  (a program of our own venv)
            [MINISTACK], env=_environment(port, home), cwd=home, stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_S
        while not is_ministack(address):
            if ends_within(process, POLL_S) or time.monotonic() > deadline:
                raise NotStarted(f"ministack did not start; it said:\n{output.read_text()[-2000:]}")
        yield address
    finally:
        process.terminate()
        ends_within(process, STOP_S)
        # With whatever is left of it: functions that still wait for something.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_ministack(address: str) -> bool:
    """Whether it is ministack that answers there."""
    return _status(address, "/_ministack/health") == http.HTTPStatus.OK


def ends_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Whether a process ends in that time."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _environment(port: int, home: Path) -> dict[str, str]:
    """All that ministack may know: nothing of this machine, no Docker, no port but the one."""
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
