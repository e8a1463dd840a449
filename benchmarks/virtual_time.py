"""Virtual time: code that sleeps, run by many at the same time, without anybody waiting for it."""

import threading
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count

EPOCH_MS = 1_794_700_000_000
"""When it begins."""


class VirtualTime:
    """Time that passes only while everybody sleeps.

    Each actor has a thread, but only one of them runs: whoever goes to sleep wakes whoever is next. So what runs needs
    no locks, and with the same seeds it runs the same way again.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._order = count()
        self._sleeping: list[tuple[float, int, threading.Lock]] = []
        self._done = threading.Event()
        self._failures: list[BaseException] = []

    def monotonic(self) -> float:
        """Seconds since it began."""
        return self.now_s

    def clock(self) -> int:
        """Milliseconds since 1970."""
        return EPOCH_MS + int(self.now_s * 1000)

    def event_id(self, seconds: float) -> int:
        """The EventId of what happens so many seconds after it began."""
        return (EPOCH_MS + int(seconds * 1000)) * 1000

    def sleep(self, seconds: float) -> None:
        """Return when so many seconds have passed; others act meanwhile."""
        turn = self._enter(seconds)
        self._next()
        turn.acquire()

    def run(self, actors: Sequence[Callable[[], None]]) -> None:
        """Let all of them act at the same time; return when the last has done, or raise what the first raised."""
        for actor in actors:
            turn = self._enter(0.0)
            threading.Thread(target=self._act, args=(actor, turn), daemon=True).start()
        self._next()
        self._done.wait()
        if self._failures:
            raise self._failures[0]

    def _act(self, actor: Callable[[], None], turn: threading.Lock) -> None:
        turn.acquire()
        try:
            actor()
        except BaseException as failure:  # whoever called `run` is told
            self._failures.append(failure)
        self._next()

    def _enter(self, seconds: float) -> threading.Lock:
        turn = threading.Lock()
        turn.acquire()
        heappush(self._sleeping, (self.now_s + seconds, next(self._order), turn))
        return turn

    def _next(self) -> None:
        """Let whoever is to wake first run; the end if nobody sleeps any more."""
        if not self._sleeping:
            self._done.set()
            return
        self.now_s, _, turn = heappop(self._sleeping)
        turn.release()
