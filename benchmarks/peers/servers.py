"""Start the peers: each in its own processes, with a directory on the same disk and the same dataset."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.load.generator import MAX_OVERRUN_FACTOR, Load
from benchmarks.peers import processes

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"

PACKAGES = {"umadb": "umadb", "hat": "hat-event", "eventsourcing": "eventsourcing"}
"""Venv: the package that it is for."""

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
LOAD_GRACE_S = 600.0
"""Time that a load may take beyond the measured time."""
IDLE_CHECK_INTERVAL_S = 0.25
IDLE_TIMEOUT_S = 60.0
"""How long to wait for a server to become idle after a load."""

_TOKEN_ARGUMENTS = ("--user", "bench", "--org", "local", "--groups", "publishers,readers")


@dataclass(frozen=True, slots=True)
class Peer:
    """A running server or a library, and how to run its load generator."""

    name: str
    python: str
    module: str
    directory: Path
    address: str
    token: str = ""

    def load(self, task: str, **options: float | str) -> Load:
        """Run the load generator in a separate process, then wait until the server is idle."""
        command = [self.python, "-m", f"benchmarks.load.{self.module}", task, self.address, "--token", self.token]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        limit_s = float(options.get("seconds", 0)) * MAX_OVERRUN_FACTOR + LOAD_GRACE_S
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}, {task}: {done.stderr}")
        self._wait_until_idle()
        return Load(**json.loads(done.stdout))

    def _wait_until_idle(self) -> None:
        """Wait until the server's processes are idle, so that they do not disturb the next measurement."""
        pids, deadline = processes.with_data_dir(self.directory), time.monotonic() + IDLE_TIMEOUT_S
        used = processes.total_cpu_s(pids)
        while pids and time.monotonic() < deadline:
            time.sleep(IDLE_CHECK_INTERVAL_S)
            before, used = used, processes.total_cpu_s(pids)
            if used - before <= IDLE_CHECK_INTERVAL_S / 10:
                return


@contextmanager
def fresh_directory() -> Iterator[Path]:
    """A directory for the data of the servers, removed on exit."""
    directory = BUILD / str(os.getpid())
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
        with suppress(OSError):  # not empty: another run uses it, or results are in it
            BUILD.rmdir()


@contextmanager
def annals(directory: Path) -> Iterator[Peer]:
    """The embedded server on the data in `directory`."""
    port = _free_port()
    environment = {"PORT": str(port), "HOST": "127.0.0.1"}
    with _running([sys.executable, "-m", "infra.server"], port, directory, environment):
        token = subprocess.run(
            [sys.executable, "-m", "infra.server.local_tokens", *_TOKEN_ARGUMENTS],
            cwd=ROOT,
            env=_environment(directory),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        yield Peer("Annals", sys.executable, "annals", directory, f"127.0.0.1:{port}", token)


def with_stream(peer: Peer) -> Peer:
    """The same server, followed by a stream instead of a long poll."""
    return replace(peer, name="Annals, stream", module="annals_stream")


@contextmanager
def umadb(directory: Path, events: int) -> Iterator[Peer]:
    """The UmaDB server with default settings."""
    port = _free_port()
    address = f"127.0.0.1:{port}"
    command = [_venv_program("umadb", "umadb"), "--listen", address, "--db-path", str(directory / "uma.db")]
    with _running(command, port, directory):
        yield _fill(Peer("UmaDB", _venv_program("umadb", "python"), "umadb", directory, address), events)


@contextmanager
def hat(directory: Path, events: int) -> Iterator[Peer]:
    """The hat-event server on LMDB: all types in one time series, the last event of each type in memory."""
    port = _free_port()
    directory.mkdir(parents=True)
    configuration = directory / "event.json"
    configuration.write_text(json.dumps(_hat_configuration(port, directory)))
    python = _venv_program("hat", "python")
    peer = Peer("hat-event", python, "hat", directory, f"127.0.0.1:{port}")
    _fill(replace(peer, address=str(configuration)), events)
    with _running([python, "-m", "hat.event.server", "--conf", str(configuration)], port, directory):
        yield peer


def service(directory: Path) -> Peer:
    """The services of Annals without a server."""
    return Peer("Annals", sys.executable, "annals_service", directory, str(directory))


@contextmanager
def eventsourcing(directory: Path, events: int) -> Iterator[Peer]:
    """The eventsourcing library with its SQLite recorder."""
    directory.mkdir(parents=True)
    python = _venv_program("eventsourcing", "python")
    yield _fill(Peer("eventsourcing", python, "eventsourcing", directory, str(directory)), events)


def is_installed(venv: str) -> bool:
    return (ROOT / f".venv-{venv}").exists()


def version(venv: str) -> str:
    """The installed version of a peer."""
    code = f"import importlib.metadata as m; print(m.version({PACKAGES[venv]!r}))"
    command = [_venv_program(venv, "python"), "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _venv_program(venv: str, program: str) -> str:
    return str(ROOT / f".venv-{venv}" / "bin" / program)


def _fill(peer: Peer, events: int) -> Peer:
    peer.load("store", events=events)
    return peer


def _hat_configuration(port: int, directory: Path) -> dict[str, object]:
    types = [["job", "*"], ["scheduler", "*"], ["rare", "*"]]
    return {
        "name": "bench",
        "server_id": 1,
        "backend": {
            "module": "hat.event.backends.lmdb",
            "db_path": str(directory / "events.lmdb"),
            "identifier": None,
            "flush_period": 1,
            "cleanup_period": 60,
            "conditions": [],
            "latest": {"subscriptions": types},
            "timeseries": [{"order_by": "TIMESTAMP", "subscriptions": types}],
        },
        "modules": [],
        "eventer_server": {"host": "127.0.0.1", "port": port},
    }


def _environment(directory: Path) -> dict[str, str]:
    """This process's environment with DATA_DIR, by which `processes` recognises the server."""
    # The benchmark server uses its own key and SQLite, whatever the developer has configured.
    inherited = {name: value for name, value in os.environ.items() if name not in ("JWT_KEY", "OIDC_ISSUER", "STORE")}
    return {**inherited, "DATA_DIR": str(directory)}


@contextmanager
def _running(
    command: list[str], port: int, directory: Path, environment: dict[str, str] | None = None
) -> Iterator[None]:
    """Run the command, and yield once it accepts connections."""
    directory.mkdir(parents=True, exist_ok=True)
    log_file = directory / "server.txt"
    full_environment = {**_environment(directory), **(environment or {})}
    with log_file.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=full_environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        _await_connection(process, port, log_file)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_connection(process: "subprocess.Popen[bytes]", port: int, log_file: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"the server did not start: {log_file.read_text()}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
