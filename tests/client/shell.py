"""`annals` as a shell starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.serving import PATIENCE_S, ROOT, Member

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def values(self) -> list[Any]:
        """Its lines as JSON."""
        return [json.loads(line) for line in self.lines]


@dataclass(frozen=True)
class Shell:
    """A shell whose environment knows the server and a token."""

    environment: Mapping[str, str] = field(default_factory=dict)

    def annals(self, *words: str, given: str = "", **environment: str) -> Done:
        """Run the command to its end."""
        done = subprocess.run(
            [BIN / "annals", *words],
            cwd=ROOT,
            env={**self.environment, **environment},
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S * 2,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start the command; the test ends it, with Ctrl-C even where the tests themselves do not heed that."""
        return subprocess.Popen(
            ["env", "--default-signal=INT", BIN / "annals", *words],
            cwd=ROOT,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def shell_of(member: Member, url: str | None = None) -> Shell:
    """The shell of somebody with a token."""
    path = f"{BIN}:{os.environ['PATH']}"
    environment = {"PATH": path, "ANNALS_URL": url or member.server.url, "ANNALS_TOKEN": member.token, "TZ": "UTC"}
    return Shell({**environment, "NO_PROXY": "127.0.0.1"})
