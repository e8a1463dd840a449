"""The real server for tests: a process running `python -m infra.server`, used through its sockets."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.server import local_tokens

ROOT = Path(__file__).parent.parent
JWT_KEY = "the key of the tests, long enough for HS256"
ALL_GROUPS = ["publishers", "readers", "admins"]
TIMEOUT_S = 15.0
"""How long a test waits for something that is immediate on an idle machine."""

_numbers = count(1)


class Server:
    """One server process with its own data directory."""

    def __init__(self, data_dir: Path, module: str = "infra.server", **environment: str) -> None:
        self.data_dir = data_dir
        data_dir.mkdir(parents=True, exist_ok=True)
        self._output = data_dir / "output.txt"
        with self._output.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module],
                cwd=ROOT,
                env=_environment(data_dir, environment),
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.port = self._read_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=False)
        """Keeps its connections open and sends no token."""

    @property
    def output(self) -> str:
        return self._output.read_text()

    def connect(self) -> socket.socket:
        """A TCP connection, for input that an HTTP client would not send."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)

    def member(self, *organizations: str, groups: Sequence[str] = ALL_GROUPS, user: str = "anna") -> "Member":
        """A user with a token for these organizations."""
        return Member(self, user, list(organizations), list(groups))

    def organization(self) -> "Member":
        """A user with all rights in a new organization."""
        member = self.member(new_organization_name())
        member.create()
        return member

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for the process to end."""
        return self.process.wait(TIMEOUT_S)

    def close(self) -> None:
        self.client.close()
        self._kill()

    def is_gone(self) -> bool:
        """Whether the process and all its child processes have ended."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def _kill(self) -> None:
        """Kill the process and all its child processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read_port(self) -> int:
        assert self.process.stdout is not None
        greeting = self.process.stdout.readline().decode()
        match = re.search(r"http://127\.0\.0\.1:(\d+)", greeting)
        if match is None:
            self._kill()
            raise AssertionError(f"the server did not start. Its output:\n{greeting}{self.output[-2000:]}")
        return int(match[1])


@dataclass
class Member:
    """A user and their requests to the server."""

    server: Server
    user: str
    organizations: list[str]
    groups: list[str]

    @property
    def organization(self) -> str:
        """The default organization."""
        return self.organizations[0]

    @cached_property
    def token(self) -> str:
        return local_tokens.sign_token(JWT_KEY, self.user, self.organizations, self.groups)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**self.headers, **options.pop("headers", {})}
        return self.server.client.request(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def create(self) -> int:
        """Create the organization and return the number of its log."""
        answer = self.request("PUT", f"/organizations/{self.organization}")
        assert answer.status_code in (200, 201), answer.text
        number: int = answer.json()["server"]
        return number

    def post(self, body: object, **headers: str) -> httpx.Response:
        """POST /events with this JSON."""
        return self.request("POST", "/events", json=body, headers=headers)

    def publish(self, *types: str) -> list[dict[str, Any]]:
        """Append events of these types, written `a/b`, in one request, and return them as readers see them."""
        answer = self.post({"events": [{"type": type_.split("/") if type_ else []} for type_ in types]})
        assert answer.status_code == 201, answer.text
        events: list[dict[str, Any]] = answer.json()["events"]
        return events

    def read_log(self) -> dict[str, Any]:
        """The response of the server query for the whole log."""
        answer = self.get("/events/server")
        assert answer.status_code == 200, answer.text
        log: dict[str, Any] = answer.json()
        return log


@contextmanager
def run_server(data_dir: Path, module: str = "infra.server", **environment: str) -> Iterator[Server]:
    """A server that ends with the block."""
    server = Server(data_dir, module, **environment)
    try:
        yield server
    finally:
        server.close()


def new_organization_name() -> str:
    """A name that no other test uses."""
    return f"org-{next(_numbers)}"


def _environment(data_dir: Path, more: dict[str, str]) -> dict[str, str]:
    """The environment of the server, without the settings of this machine."""
    return {
        "PATH": os.environ["PATH"],
        "HOST": "127.0.0.1",
        "PORT": "0",
        "DATA_DIR": str(data_dir),
        "JWT_KEY": JWT_KEY,
        **more,
    }


@pytest.fixture(scope="session", name="server")
def fixture_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of the directory whose conftest imports this."""
    with run_server(tmp_path_factory.mktemp("server")) as running:
        yield running
        assert running.process.poll() is None, f"the server has ended. Its output:\n{running.output}"


@pytest.fixture(name="member")
def fixture_member(server: Server) -> Member:
    """A user of a new organization for each test."""
    return server.organization()
