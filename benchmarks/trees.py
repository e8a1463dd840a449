"""What a program takes of the machine with all the processes that it starts, from /proc."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGESIZE")
LOOK_S = 0.05


class Failed(Exception):
    """The program ended in failure."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a program took until its end."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    """Of all its processes together."""


def run(command: Sequence[str]) -> Taken:
    """Run a program to its end, and look at it all the time."""
    began = time.monotonic()
    cpu: dict[int, float] = {}
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            tree = _tree(process.pid)
            cpu |= {found: used for found, (used, _) in tree.items()}
            peak = max(peak, sum(size for _, size in tree.values()))
            time.sleep(LOOK_S)
    if process.returncode:
        raise Failed(f"{' '.join(command)} ended with status {process.returncode}")
    return Taken(time.monotonic() - began, sum(cpu.values()), peak / 1e6)


def _tree(root: int) -> dict[int, tuple[float, int]]:
    """The CPU seconds and the memory of a process and of all below it."""
    found = {
        int(entry.name): told for entry in Path("/proc").iterdir() if entry.name.isdigit() if (told := _told(entry))
    }
    tree = {root}
    while more := {process for process, (parent, _, _) in found.items() if parent in tree} - tree:
        tree |= more
    return {process: found[process][1:] for process in tree if process in found}


def _told(entry: Path) -> tuple[int, float, int] | None:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * PAGE
