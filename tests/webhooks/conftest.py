"""A receiver in Node, and a server that may post to it."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Server, run_server

HERE = Path(__file__).parent


@dataclass
class NodeReceiver:
    """A process that verifies the webhooks it receives."""

    process: "subprocess.Popen[str]"
    url: str = ""

    def set_secret(self, secret: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{secret}\n")
        self.process.stdin.flush()
        assert self.read() == {"ready": True}

    def read(self) -> dict[str, Any]:
        """Wait for the next line of the process."""
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message


@pytest.fixture(name="receiver")
def a_receiver() -> Iterator[NodeReceiver]:
    if shutil.which("node") is None or not (HERE / "node_modules" / "standardwebhooks").exists():
        pytest.skip("Node or npm's standardwebhooks is not installed; `make install` installs the package")
    command = ["node", str(HERE / "receiver.js")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        receiver = NodeReceiver(process)
        receiver.url = f"http://127.0.0.1:{receiver.read()['port']}/hooks"
        yield receiver
        process.kill()


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("webhooks"), WEBHOOK_HOSTS="127.0.0.1") as running:
        yield running
