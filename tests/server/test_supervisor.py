"""Worker processes and their supervisor."""

import os
import signal
import subprocess
import sys

from tests.serving import ROOT, TIMEOUT_S

BUSY_WORKER = """
from itertools import count
from infra.server.processes.supervisor import run_worker
runs = count()
run_worker("busy", 0.0, lambda: next(runs) or print("started", flush=True))
"""
FIRST_RUN_WORKER = """
import os, signal
from infra.server.processes.supervisor import run_worker
wait = signal.sigtimedwait
signal.sigtimedwait = lambda signals, seconds: print(seconds, flush=True) or wait(signals, seconds)
run_worker("patient", 1.0, lambda: print("run", flush=True) or os.kill(os.getpid(), signal.SIGTERM))
"""
PROCESSES = 12


def test_worker_runs_first_without_waiting_for_interval() -> None:
    command = [sys.executable, "-c", FIRST_RUN_WORKER, str(os.getpid())]
    process = subprocess.run(command, cwd=ROOT, timeout=TIMEOUT_S, check=True, capture_output=True, text=True)
    assert process.stdout.splitlines() == ["0.0", "run", "1.0"]


def test_worker_ends_at_sigterm_at_any_moment() -> None:
    """A handler that sets a `threading.Event` deadlocks if the signal interrupts the wait on that event."""
    running = [
        subprocess.Popen([sys.executable, "-c", BUSY_WORKER, str(os.getpid())], cwd=ROOT, stdout=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == b"started\n"
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(TIMEOUT_S) for process in running] == [0] * PROCESSES
    finally:
        for process in running:
            process.kill()
            process.communicate()
