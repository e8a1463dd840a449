"""The waiting room: one thread for all connections whose answers wait for something.

A connection here costs its socket and the state of its answer, no thread. When what it waits for has come, the thread
takes the answer's next steps and sends what they make, as fast as the client reads. Who is far behind takes the steps
elsewhere, so that nobody here waits for them.
"""

import heapq
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count

from chalicelib.services.feeds.notifiers import Bell, Waiter
from chalicelib.services.feeds.suspension import Wait
from infra.server.http.connection import Connection
from infra.server.http.protocol import Steps

TURN = 2
"""Who has more pieces than these is far behind."""
FEW = 64
"""So many who have left may be remembered for no reason."""
SLOWEST_BYTES_S = 16 * 1024
"""Who reads more slowly than this, and has been given time, is not waited for."""

Step = bytes | memoryview | Wait

_log = logging.getLogger("annals")


class _Guest:
    """A connection that waits, for something in a log or for its client to read."""

    __slots__ = ("connection", "deadline", "events", "is_here", "queued", "rest", "steps", "turn", "waiter")

    def __init__(self, connection: Connection, steps: Steps) -> None:
        self.connection = connection
        self.steps = steps
        self.waiter: Waiter | None = None
        self.rest = memoryview(b"")
        """What the client has not taken yet."""
        self.deadline = 0.0
        self.queued = float("inf")
        """The earliest deadline that the room's clock has of it."""
        self.turn = 0
        """Tells calls for an earlier wait from those for this one."""
        self.events = 0
        self.is_here = True


class WaitingRoom:
    """Holds connections until `finished` gets them back, or `go_on` those that need not wait for their next steps."""

    def __init__(
        self,
        bell: Bell,
        finished: Callable[[Connection], None],
        go_on: Callable[[Connection, Steps], None],
        idle_s: float,
    ) -> None:
        self._bell = bell
        self._finished = finished
        self._go_on = go_on
        self._idle_s = idle_s
        self._selector = selectors.DefaultSelector()
        self._knocker, self._ear = socket.socketpair()
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._arrivals: deque[tuple[_Guest, Step]] = deque()
        self._called: deque[tuple[_Guest, int]] = deque()
        self._deadlines: list[tuple[float, int, _Guest]] = []
        self._gone = 0
        """Of how many who have left there is a deadline still."""
        self._numbers = count()
        self._has_knocked = False
        threading.Thread(target=self._run, name="annals-waiting", daemon=True).start()

    def enter(self, connection: Connection, steps: Steps, step: Step) -> None:
        """Take a connection whose answer has come to a wait, or to bytes that do not go at once; from any thread."""
        self._arrivals.append((_Guest(connection, steps), step))
        self._knock()

    def _run(self) -> None:
        while True:
            for key, events in self._selector.select(self._patience_s()):
                if key.data is None:
                    self._ear.recv(4096)
                    self._has_knocked = False
                else:
                    self._guarded(key.data, partial(self._stirred, key.data, events))
            self._let_in()
            self._answer_calls()
            self._expire(time.monotonic())

    def _let_in(self) -> None:
        while self._arrivals:
            guest, step = self._arrivals.popleft()
            self._guarded(guest, partial(self._admit, guest, step))

    def _answer_calls(self) -> None:
        for _ in range(len(self._called)):
            guest, turn = self._called.popleft()
            if guest.turn == turn and guest.is_here:
                self._guarded(guest, partial(self._resume, guest))

    def _patience_s(self) -> float | None:
        if self._called:
            return 0.0
        return max(self._deadlines[0][0] - time.monotonic(), 0.0) if self._deadlines else None

    def _guarded(self, guest: _Guest, act: Callable[[], None]) -> None:
        """Whatever goes wrong with one connection, the others are served on."""
        try:
            act()
        except StopIteration:
            self._leave(guest)
        except OSError:
            self._give_up(guest)  # the client is gone
        except Exception:
            _log.exception("a stream is given up")
            self._give_up(guest)

    def _stirred(self, guest: _Guest, events: int) -> None:
        """The client has said something, or has room again."""
        if events & selectors.EVENT_READ and not guest.connection.keep():
            self._watch(guest, guest.events & ~selectors.EVENT_READ)
            if guest.connection.has_ended and guest.waiter is not None:
                # It is gone, or will say no more but still listens: either way it gets what there is, and the end.
                self._bell.leave(guest.waiter)
                guest.waiter = None
                guest.turn += 1
                self._send(guest, guest.steps.send(None))
        if guest.rest and events & selectors.EVENT_WRITE and self._sent(guest, guest.rest):
            self._part(guest)
            self._go_on(guest.connection, guest.steps)

    def _admit(self, guest: _Guest, step: Step) -> None:
        self._watch(guest, selectors.EVENT_READ)
        self._send(guest, step)

    def _park(self, guest: _Guest, wait: Wait) -> None:
        guest.turn += 1
        guest.waiter = self._bell.listen(wait.seen, wait.selection, partial(self._call, guest, guest.turn))
        self._remind(guest, wait.timeout_s)

    def _call(self, guest: _Guest, turn: int) -> None:
        """From any thread: what the guest waits for may have come."""
        self._called.append((guest, turn))
        self._knock()

    def _resume(self, guest: _Guest) -> None:
        guest.turn += 1
        waiter, guest.waiter = guest.waiter, None
        if waiter is None:
            self._send(guest, next(guest.steps))
        else:
            self._send(guest, guest.steps.send(self._bell.leave(waiter)))

    def _send(self, guest: _Guest, step: Step) -> None:
        """Send what the steps make until there is something to wait for."""
        pieces = 0
        while True:
            if isinstance(step, Wait):
                if not guest.connection.has_ended:
                    self._park(guest, step)
                    return
                step = guest.steps.send(None)
            elif not self._sent(guest, step):
                return
            elif pieces == TURN:
                self._part(guest)
                self._go_on(guest.connection, guest.steps)
                return
            else:
                pieces += 1
                step = next(guest.steps)

    def _sent(self, guest: _Guest, data: bytes | memoryview) -> bool:
        """Send, and tell whether all is sent; if not, the rest goes when the client has read some."""
        is_begun = bool(guest.rest)
        guest.rest = guest.connection.send_now(data)
        if guest.rest and not is_begun:
            self._watch(guest, guest.events | selectors.EVENT_WRITE)
            self._remind(guest, self._idle_s + len(guest.rest) / SLOWEST_BYTES_S)
            guest.connection.waits_since = time.monotonic()
        guest.connection.is_behind = bool(guest.rest)
        return not guest.rest

    def _expire(self, now: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, guest = heapq.heappop(self._deadlines)
            guest.queued = float("inf")
            if not guest.is_here:
                self._gone -= 1
            elif guest.deadline > now:
                self._queue(guest)
            elif guest.rest:
                self._give_up(guest)  # it does not read
            elif guest.waiter is not None:
                self._guarded(guest, partial(self._resume, guest))

    def _remind(self, guest: _Guest, timeout_s: float) -> None:
        guest.deadline = time.monotonic() + timeout_s
        if guest.deadline < guest.queued:
            self._queue(guest)

    def _queue(self, guest: _Guest) -> None:
        """A guest is queued once, as a rule; when its time comes it is seen whether it has more."""
        guest.queued = guest.deadline
        heapq.heappush(self._deadlines, (guest.deadline, next(self._numbers), guest))

    def _watch(self, guest: _Guest, events: int) -> None:
        sock = guest.connection.socket
        if guest.events and events:
            self._selector.modify(sock, events, guest)
        elif events:
            self._selector.register(sock, events, guest)
        elif guest.events:
            self._selector.unregister(sock)
        guest.events = events

    def _give_up(self, guest: _Guest) -> None:
        guest.connection.stays = False
        self._leave(guest)

    def _leave(self, guest: _Guest) -> None:
        self._part(guest)
        with suppress(Exception):
            guest.steps.close()
        self._finished(guest.connection)

    def _part(self, guest: _Guest) -> None:
        guest.is_here = False
        guest.rest = memoryview(b"")
        self._forget_some(guest)
        if guest.waiter is not None:
            self._bell.leave(guest.waiter)
        with suppress(OSError, KeyError, ValueError):
            self._watch(guest, 0)

    def _forget_some(self, guest: _Guest) -> None:
        """Deadlines may be far: do not keep more guests for them who have left than who are here, or a few."""
        self._gone += guest.queued < float("inf")
        if self._gone > max(len(self._deadlines) // 2, FEW):
            self._deadlines = [entry for entry in self._deadlines if entry[2].is_here]
            heapq.heapify(self._deadlines)
            self._gone = 0

    def _knock(self) -> None:
        if not self._has_knocked:
            self._has_knocked = True
            with suppress(BlockingIOError):
                self._knocker.send(b"!")
