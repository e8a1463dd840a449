"""Servers that a run starts: the embedded server of the product, and ministack."""

import contextlib
import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.deploy.local import emulator
from infra.deploy.local.emulator import ends_within

ROOT = Path(__file__).parent.parent.parent
START_S = 60.0
STOP_S = 20.0
OUTLIVE_S = 5.0
POLL_S = 0.02


class EmbeddedServer:
    """The product's own server, that can be killed and started again where it was."""

    def __init__(self, data_dir: Path, port: int, output: Path) -> None:
        self.port = port
        self._data_dir = data_dir
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: list[int] = []
        """Of each server that was started, the number of the group of all its processes."""

    def start(self) -> None:
        """Start it and return when it answers; again if it could not have its port yet."""
        deadline = time.monotonic() + START_S
        self._spawn()
        while not _answers(self.port, "/health"):
            if self._process is None or ends_within(self._process, POLL_S):
                self._spawn()
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the server did not start; it said:\n{self._output.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """Ask it to end, and tell with which code it did; minus 9 if it had to be killed."""
        if self._process is None:
            raise RuntimeError("there is no server to stop")
        code = _stop(self._process)
        self._process = None
        return code

    def bury(self) -> int:
        """End what outlived its server; how many servers left something behind that did not end by itself."""
        deadline = time.monotonic() + OUTLIVE_S
        while (left := [group for group in self._groups if _is_orphaned(group)]) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for group in left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        return len(left)

    def _spawn(self) -> None:
        environment = os.environ | {"PORT": str(self.port), "HOST": "127.0.0.1", "DATA_DIR": str(self._data_dir)}
        environment.pop("JWT_KEY", None)
        with self._output.open("ab") as sink:
            command = [sys.executable, "-m", "infra.server"]
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=sink, stderr=sink, start_new_session=True
            )
        self._groups.append(self._process.pid)


@contextmanager
def ministack(home: Path) -> Iterator[str]:
    """The endpoint of a ministack of our own."""
    with emulator.ministack(home, a_port(random.Random())) as address:
        yield address


def a_port(rng: random.Random) -> int:
    """A free port that no client gets for its own end, so that it stays free while the server is down."""
    while True:
        port = rng.randint(20_000, 30_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


def _is_orphaned(group: int) -> bool:
    """Whether the group has processes, but its first one, whose number it has, is gone."""
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
    if not ends_within(process, STOP_S):
        process.kill()
    return process.wait()
