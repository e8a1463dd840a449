"""Loads that die: of SIGKILL, at a given step of what they do to the lake.

python -m tests.glue.history.killed keep <lake> <load> <step>     what is written aside is entered and put in place
python -m tests.glue.history.killed load <exports> <lake> <file>  all of it, until so many files were begun aside
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
    """Steps that are left."""

    steps: list[None]

    def step(self) -> None:
        """The last one is not survived."""
        self.steps.pop()
        if not self.steps:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class MortalStorage(Storage):
    """A directory whose user dies before a change, or after it."""

    left: Countdown

    def write(self, path: str, content: bytes) -> None:
        """Two steps."""
        self.left.step()
        Storage.write(self, path, content)
        self.left.step()

    def move(self, path: str, to: str) -> None:
        """A step."""
        Storage.move(self, path, to)
        self.left.step()

    def remove(self, path: str) -> None:
        """Two steps."""
        self.left.step()
        Storage.remove(self, path)
        self.left.step()


@dataclass(frozen=True, slots=True)
class MortalLake(Lake):
    """A lake whose user dies."""

    left: Countdown

    @property
    def storage(self) -> Storage:
        """Where it is."""
        return MortalStorage(self.url, self.left)


@dataclass(frozen=True, slots=True)
class Deadly(Storage):
    """A directory that kills a process when so many files were begun in it; for tasks of Spark, which are others."""

    victim: int
    files_left: int
    seen: list[str] = field(default_factory=list)

    def output(self, path: str) -> Any:
        """A new file."""
        self.seen.append(path)
        opened = Storage.output(self, path)
        if len(self.seen) >= self.files_left:
            os.kill(self.victim, signal.SIGKILL)
        return opened


@dataclass(frozen=True, slots=True)
class DeadlyLake(Lake):
    """A lake whose user dies while files are written aside."""

    files_left: int

    def aside(self, number: int) -> Storage:
        """Where the files of a load are written first."""
        return Deadly(Lake.aside(self, number).url, os.getpid(), self.files_left)


def main(what: str, *args: str) -> None:
    """Do it, and die."""
    if what == "load":
        exports, lake, files = args
        load_exports(Storage(exports), DeadlyLake(lake, int(files)))
    else:
        lake, load, step = args
        MortalLake(lake, Countdown([None] * int(step))).keep(_load(Path(load)))


def _load(path: Path) -> Load:
    entry = json.loads(path.read_text())
    files = [EventFile(**{**file, "spans": [tuple(span) for span in file["spans"]]}) for file in entry["files"]]
    return Load(entry["number"], entry["exports"], files)


if __name__ == "__main__":
    main(*sys.argv[1:])
