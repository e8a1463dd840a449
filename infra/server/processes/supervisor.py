"""Worker processes beside the server: the server starts and restarts them, and they end with it.

Threads: each `WorkerProcess` has a thread in the server that waits for the process and replaces it. `stop` may be
called from any thread. Locks: none. The event `_stopped` is set before the process is terminated, so it is not
replaced.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from chalicelib.domain.backoff import Backoff
from chalicelib.domain.errors import AnnalsError
from infra.server.logging import configure

NICE_LEVEL = 10
"""Workers have a lower priority than the server: under load they lag, and requests do not."""
RESTART_DELAY_S = 1.0
MAX_BACKOFF_S = 2.0
"""Longest delay between runs that fail."""

_log = logging.getLogger("annals")


class WorkerProcess:
    """Runs a module in a process of its own, and starts it again when it ends."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._stopped = threading.Event()
        self._process = self._start()
        threading.Thread(target=self._supervise, daemon=True).start()

    def stop(self) -> None:
        """Terminate the process and wait until it has finished its current writes."""
        self._stopped.set()
        self._process.terminate()
        self._process.wait()

    def _supervise(self) -> None:
        while not self._stopped.is_set():
            status = self._process.wait()
            if not self._stopped.wait(RESTART_DELAY_S):
                _log.warning("%s ended with status %s and is restarted", self._module, status)
                self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", self._module, str(os.getpid())]
        return subprocess.Popen(command, cwd=Path(__file__).parents[3])  # noqa: S603  (our own module)


def run_worker(name: str, interval_s: float, run_once: Callable[[], None]) -> None:
    """In the worker process: call `run_once` now and at intervals, until SIGTERM or until the server has ended."""
    configure(name)
    os.nice(NICE_LEVEL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # SIGTERM stays blocked, as inherited from the server, and is taken by `sigtimedwait`. A handler that sets an event
    # would deadlock if it interrupted the wait on that event.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    # Passed as an argument: if the server was killed meanwhile, `os.getppid` would already return another process.
    server_pid = int(sys.argv[1])
    backoff = WorkerBackoff(interval_s)
    delay_s = 0.0
    while signal.sigtimedwait({signal.SIGTERM}, delay_s) is None and os.getppid() == server_pid:
        try:
            run_once()
        except AnnalsError as error:
            backoff.record_failure(error)
        else:
            backoff.record_success()
        delay_s = backoff.delay_s


class WorkerBackoff:
    """Longer delays while runs fail. A failure is logged once, not each time that it is repeated."""

    def __init__(self, interval_s: float) -> None:
        self._backoff = Backoff(interval_s, MAX_BACKOFF_S)
        self._failures = 0
        self._retry_at = 0.0
        self._logged_failure = ""

    @property
    def delay_s(self) -> float:
        """The delay before the next run."""
        return self._backoff.delay_s(self._failures)

    @property
    def is_waiting(self) -> bool:
        """Whether the delay after the last failure has not passed yet."""
        return time.monotonic() < self._retry_at

    def record_failure(self, error: AnnalsError) -> None:
        self._failures += 1
        self._retry_at = time.monotonic() + self.delay_s
        failure = f"{type(error).__name__}: {error}"
        if failure != self._logged_failure:
            _log.warning("%s", failure)
        self._logged_failure = failure

    def record_success(self) -> None:
        if self._logged_failure:
            _log.info("recovered from: %s", self._logged_failure)
        self._failures, self._logged_failure = 0, ""
