"""A load that is killed by SIGKILL at a given step.

python -m tests.glue.history.killed_load commit <lake> <load> <step>   commits a staged load
python -m tests.glue.history.killed_load load <exports> <lake> <file>  loads until that many files were staged
"""

import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glue_jobs.history import load_exports
from glue_jobs.lake.lake import EventFile, Lake, Load
from glue_jobs.lake.storage import Storage


@dataclass(frozen=True, slots=True)
class Countdown:
    """The remaining steps."""

    steps: list[None]

    def step(self) -> None:
        """Kill the process at the last step."""
        self.steps.pop()
        if not self.steps:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class KillingStorage(Storage):
    """Storage that counts a step before or after each change."""

    left: Countdown

    def write(self, path: str, content: bytes) -> None:
        self.left.step()
        Storage.write(self, path, content)
        self.left.step()

    def move(self, path: str, to: str) -> None:
        Storage.move(self, path, to)
        self.left.step()

    def remove(self, path: str) -> None:
        self.left.step()
        Storage.remove(self, path)
        self.left.step()


@dataclass(frozen=True, slots=True)
class KillingLake(Lake):
    """A lake on a `KillingStorage`."""

    left: Countdown

    @property
    def storage(self) -> Storage:
        return KillingStorage(self.url, self.left)


@dataclass(frozen=True, slots=True)
class KillOnCreateStorage(Storage):
    """Storage that kills `victim` once `files_left` files were created. Spark tasks are other processes."""

    victim: int
    files_left: int
    seen: list[str] = field(default_factory=list)

    def create(self, path: str) -> Any:
        self.seen.append(path)
        opened = Storage.create(self, path)
        if len(self.seen) >= self.files_left:
            os.kill(self.victim, signal.SIGKILL)
        return opened


@dataclass(frozen=True, slots=True)
class KillOnCreateLake(Lake):
    """A lake on which a load is killed while it writes staged files."""

    files_left: int

    def staging(self, number: int) -> Storage:
        return KillOnCreateStorage(Lake.staging(self, number).url, os.getpid(), self.files_left)


def main(command: str, *args: str) -> None:
    if command == "load":
        exports, lake, files = args
        load_exports(Storage(exports), KillOnCreateLake(lake, int(files)))
    else:
        lake, load, step = args
        KillingLake(lake, Countdown([None] * int(step))).commit(_load(Path(load)))


def _load(path: Path) -> Load:
    entry = json.loads(path.read_text())
    files = [EventFile(**{**file, "spans": [tuple(span) for span in file["spans"]]}) for file in entry["files"]]
    return Load(entry["number"], entry["exports"], files)


if __name__ == "__main__":
    main(*sys.argv[1:])
