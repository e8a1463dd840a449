"""Virtual time: run concurrent code that sleeps without waiting.

Threads: one per actor, of which exactly one runs at any time. An actor that goes to sleep wakes the next one through
that actor's lock. The actors therefore need no other locks, and a run is reproducible with the same seed.
"""

import threading
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count

EPOCH_MS = 1_794_700_000_000
"""Start of the virtual time."""


class VirtualTime:
    """Time that advances only while all actors sleep."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._order = count()
        self._sleeping: list[tuple[float, int, threading.Lock]] = []
        self._done = threading.Event()
        self._failures: list[BaseException] = []

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self.now_s

    def clock(self) -> int:
        """Milliseconds since 1970."""
        return EPOCH_MS + int(self.now_s * 1000)

    def event_id(self, seconds: float) -> int:
        """The first EventId at `seconds` after the start."""
        return (EPOCH_MS + int(seconds * 1000)) * 1000

    def sleep(self, seconds: float) -> None:
        """Suspend the calling actor for `seconds`, and run the others."""
        wakeup = self._schedule(seconds)
        self._wake_next()
        wakeup.acquire()

    def run(self, actors: Sequence[Callable[[], None]]) -> None:
        """Run all actors concurrently until the last has finished. Raises the first failure."""
        for actor in actors:
            wakeup = self._schedule(0.0)
            threading.Thread(target=self._run_actor, args=(actor, wakeup), daemon=True).start()
        self._wake_next()
        self._done.wait()
        if self._failures:
            raise self._failures[0]

    def _run_actor(self, actor: Callable[[], None], wakeup: threading.Lock) -> None:
        wakeup.acquire()
        try:
            actor()
        except BaseException as failure:  # raised by `run`
            self._failures.append(failure)
        self._wake_next()

    def _schedule(self, seconds: float) -> threading.Lock:
        wakeup = threading.Lock()
        wakeup.acquire()
        heappush(self._sleeping, (self.now_s + seconds, next(self._order), wakeup))
        return wakeup

    def _wake_next(self) -> None:
        """Wake the actor with the earliest wake-up time, or finish if none is left."""
        if not self._sleeping:
            self._done.set()
            return
        self.now_s, _, wakeup = heappop(self._sleeping)
        wakeup.release()
