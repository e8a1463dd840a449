"""CPU time, memory and threads of a server's processes, from /proc."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def with_data_dir(directory: Path) -> list[int]:
    """The processes of a server and its workers, recognised by DATA_DIR in their environment."""
    pids = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"DATA_DIR={directory}".encode() in environment.split(b"\0"):
            pids.append(int(entry.name))
    return pids


def cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def total_cpu_s(processes: Iterable[int]) -> float:
    """CPU time of all processes that are still running."""
    used = 0.0
    for process in processes:
        with suppress(OSError):
            used += cpu_s(process)
    return used


def memory_mb(process: int) -> float:
    return _status(process, "VmRSS") * 1024 / 1e6


def peak_mb(process: int) -> float:
    return _status(process, "VmHWM") * 1024 / 1e6


def threads(process: int) -> int:
    return _status(process, "Threads")


def _status(process: int, name: str) -> int:
    value = re.search(rf"^{name}:\s*(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    if value is None:
        raise RuntimeError(f"/proc/{process}/status has no field {name}")
    return int(value[1])
