"""The delivery worker: a process beside the server that delivers the contents of the SQLite outbox.

Deliveries of one observer with the same key are made in order: while one waits for its retry, its successors wait too.

Threads: the main thread calls `poll`. Each channel has a pool, so that a channel that hangs delays no other. At most
one pool thread works on an observer at a time, and only that thread touches the observer's entries in `_backoffs`
and `_unsaved`.
Locks: `_lock` protects `_busy`. It is never held during I/O.
"""

import logging
import os
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, cast

from chalicelib.adapters.mail.message import now_ms
from chalicelib.adapters.sqlite.outbox import SqliteOutbox, WaitingDelivery
from chalicelib.adapters.sqlite.outbox_table import DROPPED, PARKED, SENT, WAITING
from chalicelib.domain.errors import AnnalsError
from chalicelib.domain.notifications.delivery import Tries
from chalicelib.services.consumers.for_each import for_each, raise_first
from chalicelib.services.notifications.attempt import Done, Park, TryAgain, advance
from chalicelib.services.notifications.deliverer import Deliverer
from chalicelib.services.notifications.history.failure_events import ReportFailure, ignore_failure
from chalicelib.services.ports import Clock
from chalicelib.wiring.notifications import build_deliverer
from infra.server.processes.supervisor import WorkerBackoff, run_worker
from infra.server.startup import open_components

POLL_INTERVAL_S = 0.1
CLEANUP_INTERVAL_S = 60.0
THREADS_BY_CHANNEL = {"mail": 16, "slack": 16, "app": 4, "webhook": 16, "apprise": 4, "eventbridge": 4, "": 1}
"""The empty channel stands for deleted observers, whose deliveries are dropped."""
MAX_MEMORY_BYTES = 2 * 1024**3
"""Address space limit: a template that needs more fails instead of exhausting the machine."""

ObserverId = tuple[int, str]
"""Server and name."""

_log = logging.getLogger("annals")


class DeliveryWorker:
    """Delivers from the outbox, observer by observer."""

    def __init__(
        self,
        outbox: SqliteOutbox,
        deliverer: Deliverer,
        clock: Clock = now_ms,
        report_failure: ReportFailure = ignore_failure,
    ) -> None:
        self._outbox = outbox
        self._report_failure = report_failure
        self._clock = clock
        self._deliverer = deliverer
        self._pools = {
            channel: ThreadPoolExecutor(size, f"deliver-{channel}") for channel, size in THREADS_BY_CHANNEL.items()
        }
        self._busy: set[ObserverId] = set()
        self._backoffs: dict[ObserverId, WorkerBackoff] = {}
        """Observers whose last run failed because the store was unavailable or their log is damaged."""
        self._lock = threading.Lock()
        self._unsaved: dict[int, _Outcome] = {}
        """Outcomes that could not be stored yet. They are stored later, without another attempt."""
        self._is_stopped = False

    def poll(self) -> None:
        """Start work for every observer that has due deliveries and no thread yet."""
        for_each(self._outbox.observers_with_due_work(self._clock()), self._start, on_error=raise_first)

    def stop(self) -> None:
        """Start no further attempts. Attempts under way continue."""
        self._is_stopped = True
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def _start(self, observer: ObserverId) -> None:
        # Before the observer is marked busy: this may raise, and then the next poll must try again.
        channel = self._deliverer.channel_of(*observer)
        with self._lock:
            if observer in self._busy or (observer in self._backoffs and self._backoffs[observer].is_waiting):
                return
            self._busy.add(observer)
        self._pools[channel].submit(self._work, observer)

    def _work(self, observer: ObserverId) -> None:
        try:
            self._deliver_all(observer)
            if backoff := self._backoffs.pop(observer, None):
                backoff.record_success()
        except AnnalsError as error:
            self._backoffs.setdefault(observer, WorkerBackoff(POLL_INTERVAL_S)).record_failure(error)
        finally:
            with self._lock:
                self._busy.discard(observer)

    def _deliver_all(self, observer: ObserverId) -> None:
        # One time for the whole run: what fails now is due again in a later run at the earliest.
        started_ms = self._clock()
        # One by one: a delivery may unblock a later one of the same recipient, which precedes those of others.
        while not self._is_stopped and (first := self._outbox.due(*observer, started_ms, limit=1)):
            self._deliver(first[0])

    def _deliver(self, waiting: WaitingDelivery) -> None:
        outcome = self._unsaved.get(waiting.n)
        if outcome is None:
            outcome = self._unsaved[waiting.n] = self._attempt(waiting)
        if outcome.state == PARKED:
            # Before it is parked: a process that ends in between repeats both, and the event is written once.
            tries = waiting.tries if outcome.tries is None else outcome.tries
            self._report_failure(waiting.delivery, waiting.put_ms, tries, outcome.error)
        self._outbox.record_outcome(waiting.n, *outcome)
        del self._unsaved[waiting.n]

    def _attempt(self, waiting: WaitingDelivery) -> "_Outcome":
        def store_attempt(tries: Tries) -> bool:
            self._outbox.record_tries(waiting.n, tries)
            return True

        match advance(waiting.delivery, waiting.tries, waiting.put_ms, self._deliverer, store_attempt, self._clock()):
            case TryAgain(tries, error, delay_s):
                # At least a millisecond, so that it is not due again in the same run.
                return _Outcome(WAITING, self._clock() + max(int(delay_s * 1000), 1), error, tries)
            case Park(tries, error):
                _log.warning("delivery %s parked after %d tries: %s", waiting.delivery.id, tries.count, error)
                return _Outcome(PARKED, self._clock(), error, tries)
            case Done("dropped", reason):
                return _Outcome(DROPPED, self._clock(), reason)
            case _:
                return _Outcome(SENT, self._clock())


class _Outcome(NamedTuple):
    """A state to store. A waiting delivery is due at `at_ms`."""

    state: int
    at_ms: int
    error: str = ""
    tries: Tries | None = None


def main() -> None:
    """Deliver until SIGTERM, or until the server process has ended."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    components = open_components()
    outbox = cast(SqliteOutbox, components.stores.outbox)
    outbox.repair_order()
    report_failure = components.notifications.failures.report
    worker = DeliveryWorker(outbox, build_deliverer(components), components.clock, report_failure)
    cleaned_at = time.monotonic()

    def poll() -> None:
        nonlocal cleaned_at
        worker.poll()
        if time.monotonic() - cleaned_at > CLEANUP_INTERVAL_S:
            cleaned_at = time.monotonic()
            outbox.delete_done(components.clock())

    run_worker("delivery-worker", POLL_INTERVAL_S, poll)
    worker.stop()
    # A hanging channel must not keep the process alive. Its delivery is attempted again after the restart.
    os._exit(0)


if __name__ == "__main__":
    main()
