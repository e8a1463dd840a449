"""The real server for tests: `python -m infra.server` in a process of its own, spoken to over sockets."""

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
PATIENCE_S = 15.0
"""How long a test waits for what has to come at once, on a machine that others load too."""

_numbers = count(1)


class Server:
    """One server process with its own data directory."""

    def __init__(self, data_dir: Path, **environment: str) -> None:
        self.data_dir = data_dir
        data_dir.mkdir(parents=True, exist_ok=True)
        self._output = data_dir / "output.txt"
        with self._output.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "infra.server"],
                cwd=ROOT,
                env=_environment(data_dir, environment),
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.port = self._announced_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)
        """Keeps its connections; knows no token."""

    @property
    def output(self) -> str:
        """What it logged."""
        return self._output.read_text()

    def connect(self) -> socket.socket:
        """A bare connection, for what no HTTP client would send."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def member(self, *organizations: str, groups: Sequence[str] = ALL_GROUPS, user: str = "anna") -> "Member":
        """Somebody with a token for these organizations."""
        return Member(self, user, list(organizations), list(groups))

    def organization(self) -> "Member":
        """Somebody with every right in an organization that is new and theirs."""
        member = self.member(new_name())
        member.create()
        return member

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for the process to end."""
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """Make sure that the process is gone."""
        self.client.close()
        self._end()

    def is_gone(self) -> bool:
        """Whether nothing is left of it, not even a process that it started."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def _end(self) -> None:
        """Whatever is left of it, and of what it started, ends now."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _announced_port(self) -> int:
        assert self.process.stdout is not None
        greeting = self.process.stdout.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", greeting)
        if found is None:
            self._end()
            raise AssertionError(f"the server did not start; it said:\n{greeting}{self.output[-2000:]}")
        return int(found[1])


@dataclass
class Member:
    """Somebody who may do something, and how they speak to the server."""

    server: Server
    user: str
    organizations: list[str]
    groups: list[str]

    @property
    def organization(self) -> str:
        """The organization they mean when they name none."""
        return self.organizations[0]

    @cached_property
    def token(self) -> str:
        """Their token."""
        return local_tokens.token(JWT_KEY, self.user, self.organizations, self.groups)

    @property
    def headers(self) -> dict[str, str]:
        """The header that lets them in."""
        return {"Authorization": f"Bearer {self.token}"}

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request."""
        headers = {**self.headers, **options.pop("headers", {})}
        return self.server.client.request(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """GET."""
        return self.ask("GET", path, **options)

    def create(self) -> int:
        """Create the organization; the number of its log."""
        answer = self.ask("PUT", f"/organizations/{self.organization}")
        assert answer.status_code in (200, 201), answer.text
        number: int = answer.json()["server"]
        return number

    def post(self, body: object, **headers: str) -> httpx.Response:
        """POST /events with this JSON."""
        return self.ask("POST", "/events", json=body, headers=headers)

    def publish(self, *types: str) -> list[dict[str, Any]]:
        """Append events of these types, written `a/b`, in one request; as readers get them."""
        answer = self.post({"events": [{"type": type_.split("/") if type_ else []} for type_ in types]})
        assert answer.status_code == 201, answer.text
        events: list[dict[str, Any]] = answer.json()["events"]
        return events

    def stored(self) -> dict[str, Any]:
        """The whole log as the server query tells it."""
        answer = self.get("/events/server")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@contextmanager
def serving(data_dir: Path, **environment: str) -> Iterator[Server]:
    """A server for as long as the block runs."""
    server = Server(data_dir, **environment)
    try:
        yield server
    finally:
        server.close()


def new_name() -> str:
    """An organization's name that no other test uses."""
    return f"org-{next(_numbers)}"


def _environment(data_dir: Path, more: dict[str, str]) -> dict[str, str]:
    """All that the server may know: nothing of this machine's settings."""
    return {
        "PATH": os.environ["PATH"],
        "HOST": "127.0.0.1",
        "PORT": "0",
        "DATA_DIR": str(data_dir),
        "JWT_KEY": JWT_KEY,
        **more,
    }


@pytest.fixture(scope="session", name="server")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of the directory whose conftest imports this."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running
        assert running.process.poll() is None, f"the server ended; it said:\n{running.output}"


@pytest.fixture(name="member")
def a_member(server: Server) -> Member:
    """Each test has an organization of its own."""
    return server.organization()
