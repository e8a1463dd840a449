"""The pump: a process beside the server that runs the consumers, so that they take no time from requests.

It needs no word from the server: it sees in the log what is new. Reads are exact however far it lags.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from chalicelib.domain.errors import AnnalsError
from chalicelib.domain.organizations import DIRECTORY
from chalicelib.services.consumers import Consumer, catch_up
from chalicelib.services.project import projector
from chalicelib.wiring import Annals, annals

LOOK_S = 0.1
"""How often it looks for new commits."""

REST_S = 5.0
"""How long it does nothing while nothing is written; then it looks for what is past retention."""
POLITE = 10
"""Its priority is lower than the server's: under load views lag, and requests do not."""
AGAIN_S = 1.0
"""How long after its end it is started again."""

_log = logging.getLogger("annals")


class Pump:
    """The process, kept alive: if it ends by itself, another takes its place."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._process = _start()
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
                _log.warning("the pump ended with status %s; another is started", status)
                self._process = _start()


def _start() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "infra.embedded.pump", str(os.getpid())]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2])  # noqa: S603  (it is ourselves)


def main() -> None:
    """Run the consumers until SIGTERM, or until the server is gone."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s pump: %(message)s")
    os.nice(POLITE)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The server blocks its signals, and what it starts inherits that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    # Told, not asked for: whoever asks late is told of another parent, if the server was killed meanwhile.
    parts, server = annals(), int(sys.argv[1])
    consumers = [projector(parts.views)]
    rest = 0.0
    while not stopped.wait(LOOK_S) and os.getppid() == server:
        if parts.has_grown() or time.monotonic() > rest:
            _turn(parts, consumers)
            rest = time.monotonic() + REST_S
    parts.close()


def _turn(parts: Annals, consumers: list[Consumer]) -> None:
    try:
        for number in (DIRECTORY, *(organization.server for organization in parts.organizations.all())):
            kept = parts.retention.forgotten(number).before if number != DIRECTORY else None
            for consumer in consumers:
                catch_up(consumer, number, parts.log, parts.views, kept)
            if kept is not None:
                parts.forget(number, kept.session)
    except AnnalsError as failure:
        _log.warning("%s: %s", type(failure).__name__, failure)


if __name__ == "__main__":
    main()
