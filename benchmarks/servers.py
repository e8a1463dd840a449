"""The peers, side by side: each in its own processes, with a directory on the same disk, and with the same past."""

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

from benchmarks import processes
from benchmarks.load import MUCH_LONGER, Load

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"

PACKAGES = {"umadb": "umadb", "hat": "hat-event", "eventsourcing": "eventsourcing"}
"""What each peer's venv has been made for."""

START_S = 60.0
STOP_S = 60.0
GRACE_S = 600.0
"""What a load may take on top of the time it measures."""
IDLE_S = 0.25
SETTLE_S = 60.0
"""How long a server may go on working after a load."""

_CALLER = ("--user", "bench", "--org", "local", "--groups", "publishers,readers")


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that runs, or a library, and how to put load on it."""

    name: str
    python: str
    module: str
    directory: Path
    address: str
    token: str = ""

    def load(self, task: str, **options: float | str) -> Load:
        """What its load generator, in a process of its own, found; the server has settled when this returns."""
        command = [self.python, "-m", f"benchmarks.{self.module}", task, self.address, "--token", self.token]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        limit_s = float(options.get("seconds", 0)) * MUCH_LONGER + GRACE_S
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}, {task}: {done.stderr}")
        self._settle()
        return Load(**json.loads(done.stdout))

    def _settle(self) -> None:
        """Wait until its processes have nothing to do any more: what is measured next must not pay for it."""
        own, deadline = processes.of(self.directory), time.monotonic() + SETTLE_S
        used = processes.all_cpu_s(own)
        while own and time.monotonic() < deadline:
            time.sleep(IDLE_S)
            before, used = used, processes.all_cpu_s(own)
            if used - before <= IDLE_S / 10:
                return


@contextmanager
def fresh_directory() -> Iterator[Path]:
    """A directory for the servers' data, removed afterwards."""
    directory = BUILD / str(os.getpid())
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
        with suppress(OSError):  # another run may be using it, or left its results
            BUILD.rmdir()


@contextmanager
def annals(directory: Path) -> Iterator[Peer]:
    """The embedded server, with the data that are there."""
    port = _free_port()
    environment = {"PORT": str(port), "HOST": "127.0.0.1"}
    with _running([sys.executable, "-m", "infra.server"], port, directory, environment):
        token = subprocess.run(
            [sys.executable, "-m", "infra.server.local_tokens", *_CALLER],
            cwd=ROOT,
            env=_environment(directory),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        yield Peer("Annals", sys.executable, "load_annals", directory, f"127.0.0.1:{port}", token)


def streamed(peer: Peer) -> Peer:
    """The same server, followed by a stream."""
    return replace(peer, name="Annals, stream", module="load_streamed")


@contextmanager
def umadb(directory: Path, events: int) -> Iterator[Peer]:
    """The UmaDB server, as it comes."""
    port = _free_port()
    address = f"127.0.0.1:{port}"
    command = [_of_venv("umadb", "umadb"), "--listen", address, "--db-path", str(directory / "uma.db")]
    with _running(command, port, directory):
        yield _filled(Peer("UmaDB", _of_venv("umadb", "python"), "load_umadb", directory, address), events)


@contextmanager
def hat(directory: Path, events: int) -> Iterator[Peer]:
    """The event server of hat-event on LMDB: all types kept in one series, and the last event of each in memory."""
    port = _free_port()
    directory.mkdir(parents=True)
    configuration = directory / "event.json"
    configuration.write_text(json.dumps(_hat_configuration(port, directory)))
    python = _of_venv("hat", "python")
    peer = Peer("hat-event", python, "load_hat", directory, f"127.0.0.1:{port}")
    _filled(replace(peer, address=str(configuration)), events)
    with _running([python, "-m", "hat.event.server", "--conf", str(configuration)], port, directory):
        yield peer


def service(directory: Path) -> Peer:
    """The services of Annals without a server, on the data of one that does not run."""
    return Peer("Annals", sys.executable, "load_service", directory, str(directory))


@contextmanager
def eventsourcing(directory: Path, events: int) -> Iterator[Peer]:
    """The library eventsourcing with its recorder on SQLite."""
    directory.mkdir(parents=True)
    python = _of_venv("eventsourcing", "python")
    yield _filled(Peer("eventsourcing", python, "load_eventsourcing", directory, str(directory)), events)


def has(venv: str) -> bool:
    """Whether a peer is installed."""
    return (ROOT / f".venv-{venv}").exists()


def version(venv: str) -> str:
    """Which version of a peer is installed."""
    code = f"import importlib.metadata as m; print(m.version({PACKAGES[venv]!r}))"
    command = [_of_venv(venv, "python"), "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _of_venv(venv: str, program: str) -> str:
    return str(ROOT / f".venv-{venv}" / "bin" / program)


def _filled(peer: Peer, events: int) -> Peer:
    peer.load("store", events=events)
    return peer


def _hat_configuration(port: int, directory: Path) -> dict[str, object]:
    kept = [["job", "*"], ["scheduler", "*"], ["rare", "*"]]
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
            "latest": {"subscriptions": kept},
            "timeseries": [{"order_by": "TIMESTAMP", "subscriptions": kept}],
        },
        "modules": [],
        "eventer_server": {"host": "127.0.0.1", "port": port},
    }


def _environment(directory: Path) -> dict[str, str]:
    """Ours, but with a data directory that tells whose process it is."""
    # A key or an issuer of the developer's own is of no use to a server that lives for two minutes.
    own = {name: value for name, value in os.environ.items() if name not in ("JWT_KEY", "OIDC_ISSUER", "STORE")}
    return {**own, "DATA_DIR": str(directory)}


@contextmanager
def _running(
    command: list[str], port: int, directory: Path, environment: dict[str, str] | None = None
) -> Iterator[None]:
    """The command runs and takes connections within the block."""
    directory.mkdir(parents=True, exist_ok=True)
    told = directory / "server.txt"
    given = {**_environment(directory), **(environment or {})}
    with told.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=given, stdout=output, stderr=subprocess.STDOUT)
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
