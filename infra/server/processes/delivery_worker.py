"""The courier: a process beside the server that delivers what the outbox holds.

Each observer is a lane of its own, worked on by one thread at a time; each channel has threads of its own. So who
hangs or fails holds up nobody else. Within a lane what has the same key is told in order: while one is to be tried
again, those behind it wait.
"""

import logging
import os
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, cast

from chalicelib.adapters.sqlite.outbox import DROPPED, PARKED, SENT, WAITING, SqliteOutbox, Waiting
from chalicelib.domain.errors import AnnalsError
from chalicelib.domain.notifications.delivery import TRIES, Dropped, Failed
from chalicelib.services.notifications.deliverer import Delivering
from chalicelib.wiring.notifications import delivering
from infra.server.processes.supervisor import Patience, for_each, serve_until_told
from infra.server.startup import opened

LOOK_S = 0.1
BATCH = 200
THREADS = {"mail": 16, "slack": 16, "app": 4, "": 1}
MOST_BYTES = 2 * 1024**3
"""Of memory: a template that asks for more fails."""

_log = logging.getLogger("annals")


class Courier:
    """Works on the lanes."""

    def __init__(self, outbox: SqliteOutbox, delivering: Delivering) -> None:
        self._outbox = outbox
        self._delivering = delivering
        self._pools = {channel: ThreadPoolExecutor(n, f"courier-{channel}") for channel, n in THREADS.items()}
        self._busy: set[tuple[int, str]] = set()
        self._resting: dict[tuple[int, str], Patience] = {}
        """Lanes on which the last work failed: the store did not answer, or their log is damaged."""
        self._mutex = threading.Lock()
        self._owed: dict[int, _Outcome] = {}
        """What came of tries, but could not be kept: it is not tried again, only kept again."""
        self._stopped = False

    def look(self) -> None:
        """Set to work on every lane where something waits and nobody works yet."""
        for_each(self._outbox.lanes(), self._set_to_work)

    def _set_to_work(self, lane: tuple[int, str]) -> None:
        # Asked before the lane counts as busy: if the store gives no answer, somebody has to look again.
        channel = self._delivering.channel_of(*lane)
        with self._mutex:
            if lane in self._busy or (lane in self._resting and self._resting[lane].is_resting):
                return
            self._busy.add(lane)
        self._pools[channel].submit(self._work, *lane)

    def stop(self) -> None:
        """Begin nothing any more, and let what is under way end."""
        self._stopped = True
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, server: int, observer: str) -> None:
        try:
            held: set[str] = set()
            after = 0
            while not self._stopped and (batch := self._outbox.waiting(server, observer, after, BATCH)):
                for waiting in batch:
                    after = waiting.n
                    if not self._stopped and waiting.delivery.key not in held and not self._told(waiting):
                        held.add(waiting.delivery.key)
            if patience := self._resting.pop((server, observer), None):
                patience.went_on()
        except AnnalsError as failure:
            self._resting.setdefault((server, observer), Patience(LOOK_S)).failed(failure)
        finally:
            with self._mutex:
                self._busy.discard((server, observer))

    def _told(self, waiting: Waiting) -> bool:
        """Try it, if it is due; whether those behind it may go on."""
        if waiting.due_ms > _now_ms():
            return False
        found = self._owed.get(waiting.n)
        if found is None:
            found = self._owed[waiting.n] = self._outcome(waiting)
        self._outbox.settle(waiting.n, *found)
        del self._owed[waiting.n]
        return found.state != WAITING

    def _outcome(self, waiting: Waiting) -> "_Outcome":
        tries = waiting.tries + 1
        if tries > TRIES:
            return _Outcome(PARKED, _now_ms(), "the process ended at each of its tries")
        self._outbox.try_now(waiting.n)
        match self._delivering.attempt(waiting.delivery, tries):
            case Failed(error, None):
                _log.warning("delivery %s is parked after %d tries: %s", waiting.delivery.id, tries, error)
                return _Outcome(PARKED, _now_ms(), error)
            case Failed(error, pause_s) if pause_s is not None:
                return _Outcome(WAITING, _now_ms() + int(pause_s * 1000), error)
            case Dropped(reason):
                return _Outcome(DROPPED, _now_ms(), reason)
            case _:
                return _Outcome(SENT, _now_ms())


class _Outcome(NamedTuple):
    """What came of a try: sent, dropped, parked, or waiting until `at_ms`."""

    state: int
    at_ms: int
    error: str = ""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    """Deliver until SIGTERM, or until the server is gone."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    parts = opened()
    outbox = cast(SqliteOutbox, parts.outbox)
    courier = Courier(outbox, delivering(parts))
    forgotten = time.monotonic()

    def turn() -> None:
        nonlocal forgotten
        courier.look()
        if time.monotonic() - forgotten > 60:
            forgotten = time.monotonic()
            outbox.forget(parts.clock())

    serve_until_told("courier", LOOK_S, turn)
    courier.stop()
    os._exit(0)  # a channel that hangs must not keep us; its delivery is tried again


if __name__ == "__main__":
    main()
