"""Responses that wait for a commit or for their client to read: one thread serves all of them.

A parked response costs a socket and the state of its generator, but no thread. When it can continue, this thread runs
the next steps of the generator and sends their bytes. A response with much to read or to send is handed to a worker
thread, so that it does not delay the others. If reads of the store are slow, so is each response that has to read
commits which are not in memory.

Threads: `park` and the callbacks of the notifier may run in any thread. Everything else runs in the thread
`annals-parked`, which owns the event loop. A parked connection belongs to this thread until it is detached.
Locks: none. `CommitNotifier` calls back while it holds its own lock, so `_on_commit` only queues a callback.
"""

import logging
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from chalicelib.domain.events.head import Head
from chalicelib.services.feeds.notifiers import CommitNotifier
from chalicelib.services.feeds.subscriber_groups import Subscription
from chalicelib.services.feeds.suspension import Wait
from infra.server.http.connection import Connection
from infra.server.http.event_loop import EventLoop
from infra.server.http.response_writer import Steps, steps_after_wait

MAX_STEPS_PER_TURN = 2
"""A response with more pieces to send than this continues in a worker thread."""
MIN_READ_BYTES_S = 16 * 1024
"""A client that reads more slowly than this is disconnected once the idle timeout has passed as well."""

MAX_TOTAL_UNSENT_BYTES = 64 * 1024 * 1024
"""Limit for all data that clients have not read. Beyond it, those that have read nothing for longest are closed."""

Step = bytes | memoryview | Wait

_log = logging.getLogger("annals")


class _ParkedResponse:
    __slots__ = (
        "connection",
        "events",
        "is_detached",
        "is_expensive",
        "position",
        "steps",
        "subscription",
        "timer",
        "unsent",
        "wait_number",
    )

    def __init__(self, connection: Connection, steps: Steps, loop: EventLoop, on_timeout: "_Action") -> None:
        self.connection = connection
        self.steps = steps
        self.subscription: Subscription | None = None
        self.unsent = memoryview(b"")
        self.timer = loop.timer(partial(on_timeout, self))
        self.wait_number = 0
        """Distinguishes the notifications for the current wait from those for an earlier one."""
        self.events = 0
        """The events for which the socket is registered."""
        self.is_detached = False
        self.is_expensive = False
        """Whether the step after the current wait may take long."""
        self.position: Head | None = None
        """Result of the last wait. The following steps read what was committed after it."""


_Action = Callable[[_ParkedResponse], None]


class ParkedResponses:
    """Holds connections until their responses are finished or continue in a worker thread."""

    def __init__(
        self,
        notifier: CommitNotifier,
        on_finished: Callable[[Connection], None],
        resume_in_worker: Callable[[Connection, Steps], None],
        idle_timeout_s: float,
        has_slow_reads: bool = False,
    ) -> None:
        self._notifier = notifier
        self._has_slow_reads = has_slow_reads
        self._on_finished = on_finished
        self._resume_in_worker = resume_in_worker
        self._idle_timeout_s = idle_timeout_s
        self._unsent_bytes: dict[_ParkedResponse, int] = {}
        """Memory used for unsent data. The client that has read nothing for longest comes first."""
        self._total_unsent_bytes = 0
        self._loop = EventLoop()
        threading.Thread(target=self._run, name="annals-parked", daemon=True).start()

    def park(self, connection: Connection, steps: Steps, step: Step) -> None:
        """Take over a connection whose response has come to `step`: a wait, or bytes that could not be sent at once."""
        parked = _ParkedResponse(connection, steps, self._loop, self._on_timeout)
        self._loop.call_soon(partial(self._guarded, parked, partial(self._start, step=step)))

    def _run(self) -> None:
        while True:
            self._loop.run_once()

    def _guarded(self, parked: _ParkedResponse, action: _Action) -> None:
        """An error ends this response and no other."""
        try:
            action(parked)
        except StopIteration:
            self._finish(parked)
        except OSError:
            self._abort(parked)  # The client has disconnected.
        except Exception:
            _log.exception("stream closed after an unexpected error")
            self._abort(parked)

    def _start(self, parked: _ParkedResponse, step: Step) -> None:
        self._watch(parked, selectors.EVENT_READ)
        self._run_steps(parked, step)

    def _run_steps(self, parked: _ParkedResponse, step: Step) -> None:
        """Send the bytes of `step` and of the following steps, up to the next wait."""
        pieces = 0
        while True:
            if isinstance(step, Wait):
                if not parked.connection.is_eof:
                    self._wait(parked, step)
                    return
                if step.is_expensive:
                    self._continue_in_worker(parked, None)
                    return
                step = parked.steps.send(None)
            elif not self._send(parked, step):
                return
            elif pieces == MAX_STEPS_PER_TURN or self._must_read(parked):
                self._detach(parked)
                self._resume_in_worker(parked.connection, parked.steps)
                return
            else:
                pieces += 1
                step = next(parked.steps)

    def _wait(self, parked: _ParkedResponse, wait: Wait) -> None:
        parked.wait_number += 1
        parked.is_expensive = wait.is_expensive
        on_commit = partial(self._on_commit, parked, parked.wait_number)
        parked.subscription = self._notifier.subscribe(wait.head, wait.selection, on_commit)
        parked.timer.set(time.monotonic() + wait.timeout_s)

    def _on_commit(self, parked: _ParkedResponse, wait_number: int) -> None:
        """In any thread: a commit may contain what the response waits for."""
        self._loop.call_soon(partial(self._resume_wait, parked, wait_number))

    def _resume_wait(self, parked: _ParkedResponse, wait_number: int) -> None:
        if parked.wait_number == wait_number and not parked.is_detached:
            self._guarded(parked, self._resume)

    def _on_timeout(self, parked: _ParkedResponse) -> None:
        if parked.unsent:
            self._abort(parked)  # The client does not read.
        elif parked.subscription is not None:
            self._guarded(parked, self._resume)

    def _resume(self, parked: _ParkedResponse) -> None:
        parked.wait_number += 1
        subscription, parked.subscription = parked.subscription, None
        if subscription is None:
            self._run_steps(parked, next(parked.steps))
        else:
            self._continue(parked, self._notifier.unsubscribe(subscription))

    def _continue(self, parked: _ParkedResponse, head: Head | None) -> None:
        """Run the steps after a wait, whose result is `head`."""
        parked.position = head
        # Without a head, the process is shutting down or the client has closed its side: the response ends.
        if parked.is_expensive or (head is not None and self._must_read(parked)):
            self._continue_in_worker(parked, head)
        else:
            self._run_steps(parked, parked.steps.send(head))

    def _must_read(self, parked: _ParkedResponse) -> bool:
        """Whether the next step may need commits that only a slow read returns."""
        if not self._has_slow_reads:
            return False
        return parked.position is None or not self._notifier.is_known_after(parked.position)

    def _continue_in_worker(self, parked: _ParkedResponse, head: Head | None) -> None:
        self._detach(parked)
        self._resume_in_worker(parked.connection, steps_after_wait(parked.steps, head))

    def _on_socket_ready(self, parked: _ParkedResponse, events: int) -> None:
        if events & selectors.EVENT_READ and not parked.connection.receive():
            self._watch(parked, parked.events & ~selectors.EVENT_READ)
            if parked.connection.is_eof and parked.subscription is not None:
                # The client may still read, so it gets what there is and the regular end.
                self._notifier.unsubscribe(parked.subscription)
                parked.subscription = None
                parked.wait_number += 1
                self._continue(parked, None)
        if parked.unsent and events & selectors.EVENT_WRITE and self._send(parked, parked.unsent):
            self._detach(parked)
            self._resume_in_worker(parked.connection, parked.steps)

    def _send(self, parked: _ParkedResponse, data: bytes | memoryview) -> bool:
        """Send what the socket accepts and return whether that is all. The rest is sent when the socket is writable."""
        was_blocked = bool(parked.unsent)
        parked.unsent = parked.connection.try_send(data)
        if len(parked.unsent) < len(data):
            self._release_unsent(parked)  # It has read something, so it becomes the last.
        if parked.unsent and not was_blocked:
            now = time.monotonic()
            self._watch(parked, parked.events | selectors.EVENT_WRITE)
            parked.timer.set(now + self._idle_timeout_s + len(parked.unsent) / MIN_READ_BYTES_S)
            parked.connection.waiting_since = now
        parked.connection.has_unsent_data = bool(parked.unsent)
        if parked.unsent and parked not in self._unsent_bytes:
            self._hold_unsent(parked)
        return not parked.unsent

    def _hold_unsent(self, parked: _ParkedResponse) -> None:
        """Account for unsent data, and close the slowest clients if there is too much of it."""
        self._unsent_bytes[parked] = size = memoryview(parked.unsent.obj).nbytes  # A slice holds the whole buffer.
        self._total_unsent_bytes += size
        while self._total_unsent_bytes > MAX_TOTAL_UNSENT_BYTES and len(self._unsent_bytes) > 1:
            self._abort(next(iter(self._unsent_bytes)))

    def _release_unsent(self, parked: _ParkedResponse) -> None:
        self._total_unsent_bytes -= self._unsent_bytes.pop(parked, 0)

    def _watch(self, parked: _ParkedResponse, events: int) -> None:
        sock = parked.connection.socket
        if events:
            register = self._loop.modify if parked.events else self._loop.register
            register(sock, events, lambda ready: self._guarded(parked, partial(self._on_socket_ready, events=ready)))
        elif parked.events:
            self._loop.unregister(sock)
        parked.events = events

    def _abort(self, parked: _ParkedResponse) -> None:
        parked.connection.keep_alive = False
        self._finish(parked)

    def _finish(self, parked: _ParkedResponse) -> None:
        self._detach(parked)
        with suppress(Exception):
            parked.steps.close()
        self._on_finished(parked.connection)

    def _detach(self, parked: _ParkedResponse) -> None:
        """Release the connection. Another thread may own it from now on."""
        parked.is_detached = True
        parked.unsent = memoryview(b"")
        self._release_unsent(parked)
        parked.timer.cancel()
        if parked.subscription is not None:
            self._notifier.unsubscribe(parked.subscription)
        with suppress(OSError, KeyError, ValueError):
            self._watch(parked, 0)
