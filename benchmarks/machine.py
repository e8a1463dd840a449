"""The machine: what it is, and how busy it was before something was measured."""

import os
import platform
import re
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import servers

SYNCS = 50
_PEERS = {"UmaDB": "umadb", "hat-event": "hat", "eventsourcing": "eventsourcing"}


def facts(directory: Path) -> dict[str, Any]:
    """All that numbers depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(memory / 1e9),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sync_ms": _sync_ms(directory),
        "versions": {name: servers.version(venv) for name, venv in _PEERS.items() if servers.has(venv)},
    }


def moment() -> dict[str, Any]:
    """When, and how much the machine has to do already."""
    return {"at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "load": round(os.getloadavg()[0], 1)}


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _sync_ms(directory: Path) -> float:
    """How long it takes to have 4 KB more on the disk."""
    times = []
    with (directory / "sync").open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return round(median(times), 2)
