"""Servers for tests: the embedded server, and the AWS emulators."""

import contextlib
import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from infra.deploy.local import emulator
from infra.deploy.local.emulator import wait_for_exit
from tests.dynamodb_local.server import run_dynamodb_local
from tests.localstack.server import run_localstack

ROOT = Path(__file__).parent.parent.parent
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
ORPHAN_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.02


class EmbeddedServer:
    """The embedded server, which can be killed and restarted on the same port."""

    def __init__(
        self, data_dir: Path, port: int, output: Path, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.port = port
        self._data_dir = data_dir
        self._output = output
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: list[int] = []
        """Process group ids of all servers that were started."""

    def start(self) -> None:
        """Start the server and wait until it responds. Retries while the port is still in use."""
        deadline = time.monotonic() + START_TIMEOUT_S
        self._spawn()
        while not _answers(self.port, "/health"):
            if self._process is None or wait_for_exit(self._process, POLL_INTERVAL_S):
                self._spawn()
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the server did not start. Its output:\n{self._output.read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill the process without a clean shutdown."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """Terminate the server and return its exit code; -9 if it had to be killed."""
        if self._process is None:
            raise RuntimeError("the server is not running")
        code = _stop(self._process)
        self._process = None
        return code

    def kill_orphans(self) -> int:
        """Kill processes that outlived their server. Returns the number of servers that left some behind."""
        deadline = time.monotonic() + ORPHAN_TIMEOUT_S
        while (orphaned := [group for group in self._groups if _is_orphaned(group)]) and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
        for group in orphaned:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        return len(orphaned)

    def _spawn(self) -> None:
        environment = os.environ | {"PORT": str(self.port), "HOST": "127.0.0.1", "DATA_DIR": str(self._data_dir)}
        environment.pop("JWT_KEY", None)
        environment |= self._settings
        with self._output.open("ab") as sink:
            command = [sys.executable, "-m", "infra.server"]
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=sink, stderr=sink, start_new_session=True
            )
        self._groups.append(self._process.pid)


@contextmanager
def ministack(home: Path) -> Iterator[str]:
    """Start a ministack, and yield its endpoint."""
    with emulator.run_ministack(home, free_port(random.Random())) as address:
        yield address


@contextmanager
def dynamodb_local(home: Path) -> Iterator[str]:
    """Start a DynamoDB Local, and yield its endpoint."""
    with run_dynamodb_local(home, free_port(random.Random())) as address:
        yield address


@contextmanager
def localstack(home: Path) -> Iterator[str]:
    """Start a LocalStack, and yield its endpoint."""
    with run_localstack(home, free_port(random.Random())) as address:
        yield address


def free_port(rng: random.Random) -> int:
    """A free port outside the ephemeral range, so that it stays free while the server is down."""
    while True:
        port = rng.randint(20_000, 30_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


def _is_orphaned(group: int) -> bool:
    """Whether the process group still has processes although its leader is gone."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{group}").exists()


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    if not wait_for_exit(process, STOP_TIMEOUT_S):
        process.kill()
    return process.wait()
