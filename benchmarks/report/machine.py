"""Facts about the machine, and its load before a measurement."""

import os
import platform
import re
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers import servers

SYNCS = 50
_PEER_VENVS = {"UmaDB": "umadb", "hat-event": "hat", "eventsourcing": "eventsourcing"}


def facts(directory: Path) -> dict[str, Any]:
    """Hardware, software versions and disk speed that the numbers depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(memory / 1e9),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sync_ms": _sync_ms(directory),
        "versions": {name: servers.version(venv) for name, venv in _PEER_VENVS.items() if servers.is_installed(venv)},
    }


def current_state() -> dict[str, Any]:
    """The current time and load average."""
    return {"at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "load": round(os.getloadavg()[0], 1)}


def _processor() -> str:
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return model[1] if model else platform.machine()


def _sync_ms(directory: Path) -> float:
    """Median time to append and fsync 4 KB."""
    times = []
    with (directory / "sync").open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return round(median(times), 2)
