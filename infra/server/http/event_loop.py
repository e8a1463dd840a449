"""An event loop: socket readiness, callbacks from other threads, and timers.

Threads: one thread calls `run_once` and owns the loop. All callbacks run in that thread, and only that thread may use
the other methods and the timers. The exception is `call_soon`, which any thread may call.
Locks: none. `call_soon` appends to a deque, which is atomic, before it looks whether a wake-up is pending. The loop
clears that flag before it reads the deque, so no callback is missed.
"""

import heapq
import logging
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from math import inf

MIN_STALE_TIMERS = 64
"""Number of stale timer entries that may stay in the heap before it is rebuilt."""
MAX_SELECT_S = 3600.0

OnReady = Callable[[int], None]
"""Gets the events of `selectors` for which the socket is ready."""

_log = logging.getLogger("annals")


class Timer:
    """Calls a function once its deadline has passed. The deadline can be moved."""

    __slots__ = ("_loop", "callback", "deadline", "queued_at")

    def __init__(self, loop: "EventLoop", callback: Callable[[], None]) -> None:
        self._loop = loop
        self.callback: Callable[[], None] | None = callback
        self.deadline = inf
        self.queued_at = inf
        """The time of the valid entry in the loop's heap. Entries with another time are stale."""

    def set(self, deadline: float) -> None:
        """Replace the deadline, in seconds of `time.monotonic`."""
        self.deadline = deadline
        # A later deadline needs no new entry: the loop looks at the deadline when the entry comes up.
        if deadline < self.queued_at:
            self._loop.queue_timer(self)

    def cancel(self) -> None:
        """Never call the function, and release it."""
        self.callback = None
        self.deadline = inf
        self._loop.discard_timer(self)


class EventLoop:
    """A selector with wake-ups and timers. An exception in a callback is logged and does not end the loop."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._wakeup_reader = socket.socketpair()
        self._wakeup.setblocking(False)
        self._wakeup_reader.setblocking(False)
        self._is_wakeup_pending = False
        self._callbacks: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._stale_timers = 0
        self._timer_numbers = count()
        self.register(self._wakeup_reader, selectors.EVENT_READ, self._on_wakeup)

    def register(self, sock: socket.socket, events: int, on_ready: OnReady) -> None:
        self._selector.register(sock, events, on_ready)

    def modify(self, sock: socket.socket, events: int, on_ready: OnReady) -> None:
        self._selector.modify(sock, events, on_ready)

    def unregister(self, sock: socket.socket) -> None:
        """Raises `KeyError` or `ValueError` if the socket is not registered."""
        self._selector.unregister(sock)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Have the loop's thread call `callback`. Any thread may call this."""
        self._callbacks.append(callback)
        if not self._is_wakeup_pending:
            self._is_wakeup_pending = True
            with suppress(OSError):  # The loop is closed, or its buffer is full of wake-ups.
                self._wakeup.send(b"\0")

    def timer(self, callback: Callable[[], None]) -> Timer:
        """A timer without a deadline yet."""
        return Timer(self, callback)

    def call_at(self, deadline: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self, callback)
        timer.set(deadline)
        return timer

    def run_once(self, max_wait_s: float = MAX_SELECT_S) -> None:
        """Wait for events, at most `max_wait_s`, and call all callbacks that are due."""
        for key, events in self._selector.select(self._select_timeout_s(max_wait_s)):
            try:
                key.data(events)
            except Exception:
                _log.exception("unexpected error in an event loop callback")
        # Callbacks that are added meanwhile are called in the next turn, after the sockets.
        for _ in range(len(self._callbacks)):
            _guarded(self._callbacks.popleft())
        self._run_timers(time.monotonic())

    def close(self) -> None:
        self._selector.close()
        self._wakeup.close()
        self._wakeup_reader.close()

    def queue_timer(self, timer: Timer) -> None:
        """Used by `Timer`."""
        self.discard_timer(timer)
        timer.queued_at = timer.deadline
        heapq.heappush(self._timers, (timer.deadline, next(self._timer_numbers), timer))

    def discard_timer(self, timer: Timer) -> None:
        """Used by `Timer`. Its entry becomes stale, and many stale entries are removed together."""
        if timer.queued_at == inf:
            return
        timer.queued_at = inf
        self._stale_timers += 1
        if self._stale_timers > max(len(self._timers) // 2, MIN_STALE_TIMERS):
            self._timers = [entry for entry in self._timers if entry[0] == entry[2].queued_at]
            heapq.heapify(self._timers)
            self._stale_timers = 0

    def _on_wakeup(self, _events: int) -> None:
        self._wakeup_reader.recv(4096)
        self._is_wakeup_pending = False

    def _select_timeout_s(self, max_wait_s: float) -> float:
        if not self._timers:
            return max_wait_s
        return min(max(self._timers[0][0] - time.monotonic(), 0.0), max_wait_s)

    def _run_timers(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            queued_at, _, timer = heapq.heappop(self._timers)
            if queued_at != timer.queued_at:
                self._stale_timers -= 1
                continue
            timer.queued_at = inf
            if timer.deadline > now:
                timer.set(timer.deadline)
            elif timer.callback is not None:
                _guarded(timer.callback)


def _guarded(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:
        _log.exception("unexpected error in an event loop callback")
