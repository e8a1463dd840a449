"""Run the `annals` command in a subprocess."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.serving import ROOT, TIMEOUT_S, Member

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def values(self) -> list[Any]:
        """The output lines parsed as JSON."""
        return [json.loads(line) for line in self.lines]


@dataclass(frozen=True)
class Shell:
    """Runs commands in an environment with the server URL and a token."""

    environment: Mapping[str, str] = field(default_factory=dict)

    def annals(self, *arguments: str, stdin: str = "", **environment: str) -> CommandResult:
        completed = subprocess.run(
            [BIN / "annals", *arguments],
            cwd=ROOT,
            env={**self.environment, **environment},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S * 2,
        )
        return CommandResult(completed.returncode, completed.stdout, completed.stderr)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start the command. It reacts to SIGINT even if the test process ignores that signal."""
        return subprocess.Popen(
            ["env", "--default-signal=INT", BIN / "annals", *arguments],
            cwd=ROOT,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def shell_for(member: Member, url: str | None = None) -> Shell:
    path = f"{BIN}:{os.environ['PATH']}"
    environment = {"PATH": path, "ANNALS_URL": url or member.server.url, "ANNALS_TOKEN": member.token, "TZ": "UTC"}
    # The client under test may be that of another working tree.
    python_path = {name: os.path.abspath(os.environ[name]) for name in ("PYTHONPATH",) if name in os.environ}  # noqa: PTH100
    return Shell({**environment, **python_path, "NO_PROXY": "127.0.0.1"})
