"""Run `annals run` in a subprocess, with a separate spool."""

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.client.shell import BIN, Shell, shell_for
from tests.serving import ROOT, TIMEOUT_S, Member

_numbers = count(1)


@dataclass(frozen=True)
class Runner:
    """Runs commands with `annals run` and reads their jobs."""

    shell: Shell
    member: Member
    state: Path
    """The folder for XDG_STATE_HOME."""

    def run(
        self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [BIN / "annals", "run", *arguments],
            cwd=ROOT,
            env={**self.environment, **(environment or {})},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=TIMEOUT_S * 2,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["env", "--default-signal", BIN / "annals", "run", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def environment(self) -> dict[str, str]:
        return {**self.shell.environment, "XDG_STATE_HOME": str(self.state), "TMPDIR": str(self.state.parent)}

    @property
    def spooled(self) -> list[Path]:
        """The folders of the runs in the spool."""
        return sorted((self.state / "annals" / "runs").glob("[0-9]*"))

    def job(self, number: int) -> Any:
        answer = self.member.get(f"/objects/job/{number}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def events(self, number: int) -> list[dict[str, Any]]:
        """The events of a job."""
        return [event for event in self.member.read_log()["events"] if event["key"] == f"/job/{number}"]

    def await_event(self, number: int, name: str) -> Any:
        """Wait for the first event of a kind, and return its payload."""
        query = {"types": f"job/{name}/*", "keys": f"/job/{number}", "timeout": f"{TIMEOUT_S}s"}
        event, *_ = self.member.get("/events", params=query).json()["eventSnapshots"]
        return event["payload"]["data"]

    def with_url(self, url: str) -> "Runner":
        return Runner(shell_for(self.member, url), self.member, self.state)


def new_job_id() -> int:
    """A number that no other test uses."""
    return next(_numbers)


def messages(job: Any) -> list[str]:
    """The reported lines of a job."""
    return [line["message"] for line in job["logs"]]


def ready_line(process: "subprocess.Popen[bytes]") -> bytes:
    """The next line that the command writes."""
    assert process.stdout is not None
    return process.stdout.readline()


def children_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in children.split()]


def wait_until(condition: Callable[[], object]) -> None:
    """Poll the files of another process."""
    for _ in range(int(TIMEOUT_S * 100)):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("the condition did not become true in time")


@contextmanager
def silent_server() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
