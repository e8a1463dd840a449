"""What a server's processes take of the machine, from /proc."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def of(directory: Path) -> list[int]:
    """The server and its pump: whoever has this data directory in its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"DATA_DIR={directory}".encode() in environment.split(b"\0"):
            found.append(int(entry.name))
    return found


def cpu_s(process: int) -> float:
    """The CPU time it took so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def all_cpu_s(processes: Iterable[int]) -> float:
    """The CPU time that they took so far; one that has ended counts no more."""
    used = 0.0
    for process in processes:
        with suppress(OSError):
            used += cpu_s(process)
    return used


def memory_mb(process: int) -> float:
    """The memory it has now."""
    return _status(process, "VmRSS") * 1024 / 1e6


def peak_mb(process: int) -> float:
    """The most memory it ever had."""
    return _status(process, "VmHWM") * 1024 / 1e6


def threads(process: int) -> int:
    """How many threads it has now."""
    return _status(process, "Threads")


def _status(process: int, name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"the system does not tell {name}")
    return int(found[1])
