"""Companions: processes beside the server that do what takes time from nobody. They are kept alive, and end with it."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from chalicelib.domain.errors import AnnalsError
from infra.server.logging import begin

T = TypeVar("T")

POLITE = 10
"""Their priority is lower than the server's: under load they lag, and requests do not."""
AGAIN_S = 1.0
"""How long after its end one is started again."""
LONGEST_PAUSE_S = 2.0
"""How long one waits that could do nothing, again and again."""

_log = logging.getLogger("annals")


class Companion:
    """A process, kept alive: if it ends by itself, another takes its place."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._stopped = threading.Event()
        self._process = self._start()
        threading.Thread(target=self._keep, daemon=True).start()

    def stop(self) -> None:
        """End it, and let it finish what it is writing."""
        self._stopped.set()
        self._process.terminate()
        self._process.wait()

    def _keep(self) -> None:
        while not self._stopped.is_set():
            status = self._process.wait()
            if not self._stopped.wait(AGAIN_S):
                _log.warning("%s ended with status %s; another is started", self._module, status)
                self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", self._module, str(os.getpid())]
        return subprocess.Popen(command, cwd=Path(__file__).parents[3])  # noqa: S603  (it is ourselves)


def serve_until_told(name: str, pause_s: float, turn: Callable[[], None]) -> None:
    """In the process itself: do a turn again and again until SIGTERM, or until the server is gone."""
    begin(name)
    os.nice(POLITE)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The server blocks its signals, and what it starts inherits that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    # Told, not asked for: whoever asks late is told of another parent, if the server was killed meanwhile.
    server = int(sys.argv[1])
    patience = Patience(pause_s)
    while not stopped.wait(patience.pause_s) and os.getppid() == server:
        try:
            turn()
        except AnnalsError as failure:
            patience.failed(failure)
        else:
            patience.went_on()


class Patience:
    """What to do about turns that fail: wait longer each time, and complain once about the same."""

    def __init__(self, pause_s: float) -> None:
        self.pause_s = self._first_s = pause_s
        self._until = 0.0
        self._told = ""

    @property
    def is_resting(self) -> bool:
        """Whether it is too early for the next turn."""
        return time.monotonic() < self._until

    def failed(self, failure: AnnalsError) -> None:
        """A turn came to nothing."""
        self.pause_s = min(self.pause_s * 2, LONGEST_PAUSE_S)
        self._until = time.monotonic() + self.pause_s
        said = f"{type(failure).__name__}: {failure}"
        if said != self._told:
            _log.warning("%s", said)
        self._told = said

    def went_on(self) -> None:
        """A turn was done."""
        if self._told:
            _log.info("it goes on, after: %s", self._told)
        self.pause_s, self._told = self._first_s, ""


def for_each(some: Iterable[T], work: Callable[[T], None]) -> None:
    """Work on each; one that fails, for its log is damaged perhaps, holds up no other, and is told of in the end."""
    failed: AnnalsError | None = None
    for one in some:
        try:
            work(one)
        except AnnalsError as failure:
            failed = failed or failure
    if failed is not None:
        raise failed
