"""CPU time and memory of a program including its child processes, from /proc."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
SAMPLE_INTERVAL_S = 0.05


class ProgramFailed(Exception):
    """The program exited with a nonzero status."""


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Resources that a program used."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    """Peak of the sum over all its processes."""


def run(command: Sequence[str]) -> ResourceUsage:
    """Run a program and sample its process tree until it exits."""
    began = time.monotonic()
    cpu: dict[int, float] = {}
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            tree = _tree(process.pid)
            cpu |= {pid: used for pid, (used, _) in tree.items()}
            peak = max(peak, sum(size for _, size in tree.values()))
            time.sleep(SAMPLE_INTERVAL_S)
    if process.returncode:
        raise ProgramFailed(f"{' '.join(command)} ended with status {process.returncode}")
    return ResourceUsage(time.monotonic() - began, sum(cpu.values()), peak / 1e6)


def _tree(root: int) -> dict[int, tuple[float, int]]:
    """CPU seconds and memory in bytes of a process and all its descendants."""
    stats = {
        int(entry.name): stat
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        if (stat := _read_stat(entry))
    }
    tree = {root}
    while more := {process for process, (parent, _, _) in stats.items() if parent in tree} - tree:
        tree |= more
    return {process: stats[process][1:] for process in tree if process in stats}


def _read_stat(entry: Path) -> tuple[int, float, int] | None:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS_PER_S, int(fields[21]) * PAGE_BYTES
