"""The servers, side by side: each in its own process, with a fresh directory on the same disk."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import Load

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
UMADB_BIN = ROOT / ".venv-umadb" / "bin"

START_S = 30.0
STOP_S = 20.0
GRACE_S = 120.0
"""What a load may take on top of the time it measures."""

_CALLER = ("--user", "bench", "--org", "local", "--groups", "publishers,readers")


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that runs, and how to put load on it."""

    name: str
    generator: tuple[str, ...]
    address: str
    token: str = ""

    def load(self, task: str, **options: float) -> Load:
        """What its load generator, in a process of its own, found."""
        command = [*self.generator, task, self.address, "--token", self.token]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        limit_s = options.get("seconds", 0) + GRACE_S
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}, {task}: {done.stderr}")
        return Load(**json.loads(done.stdout))


@contextmanager
def fresh_directory() -> Iterator[Path]:
    """A directory for the servers' data, removed afterwards."""
    directory = BUILD / str(os.getpid())
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
        with suppress(OSError):  # another run may be using it
            BUILD.rmdir()


@contextmanager
def annals(directory: Path) -> Iterator[Peer]:
    """The embedded server."""
    port = _free_port()
    environment = {**os.environ, "PORT": str(port), "HOST": "127.0.0.1", "DATA_DIR": str(directory)}
    # A key or an issuer of the developer's own is of no use to a server that lives for two minutes.
    for name in ("JWT_KEY", "OIDC_ISSUER", "STORE"):
        environment.pop(name, None)
    with _running([sys.executable, "-m", "infra.embedded"], port, directory, environment):
        token = subprocess.run(
            [sys.executable, "-m", "infra.embedded.tokens", *_CALLER],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        generator = (sys.executable, "-m", "benchmarks.load_annals")
        yield Peer("Annals", generator, f"127.0.0.1:{port}", token)


@contextmanager
def umadb(directory: Path) -> Iterator[Peer]:
    """The UmaDB server, as it comes."""
    port = _free_port()
    address = f"127.0.0.1:{port}"
    directory.mkdir(parents=True, exist_ok=True)
    command = [str(UMADB_BIN / "umadb"), "--listen", address, "--db-path", str(directory / "uma.db")]
    with _running(command, port, directory, dict(os.environ)):
        yield Peer("UmaDB", (str(UMADB_BIN / "python"), "-m", "benchmarks.load_umadb"), address)


def umadb_version() -> str:
    """Which UmaDB runs."""
    code = "import importlib.metadata as m; print(m.version('umadb'))"
    return subprocess.run(
        [str(UMADB_BIN / "python"), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


@contextmanager
def _running(command: list[str], port: int, directory: Path, environment: dict[str, str]) -> Iterator[None]:
    """The command runs and takes connections within the block."""
    directory.mkdir(parents=True, exist_ok=True)
    told = directory / "server.txt"
    with told.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        _await_connection(process, port, told)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_connection(process: "subprocess.Popen[bytes]", port: int, told: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"the server did not start: {told.read_text()}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
