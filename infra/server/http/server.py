"""The HTTP server: one thread reads all sockets and handles appends, worker threads handle everything else.

The server thread parses all requests that have arrived before it writes their appends, together, with one fsync.
So an append is never passed to another thread. A response that must wait for a commit or for its client is passed
to `ParkedResponses`.

Threads: `serve` runs in the server thread, which owns the event loop, the table of connections, and every connection
that is registered with the loop. A connection whose request is handled elsewhere is unregistered, and belongs to a
worker thread or to the thread of `ParkedResponses` until `_return_connection`. Any thread may call `stop`.
Locks: none here. `GroupCommit` has its own.
"""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from chalice.app import Response

from chalicelib.http import problems
from chalicelib.http.responses import DeferredResponse, SuspendableResponse
from chalicelib.services.feeds.notifiers import CommitNotifier
from chalicelib.services.feeds.suspension import Wait
from infra.server.gateway.gateway import MAX_SERVER_THREAD_BODY_BYTES, Gateway
from infra.server.http.connection import Connection
from infra.server.http.connections import Connections
from infra.server.http.event_loop import EventLoop
from infra.server.http.listener import Listener
from infra.server.http.parked_responses import ParkedResponses
from infra.server.http.protocol import HttpRequest, RequestRejected
from infra.server.http.response_writer import Steps, encode_response, response_steps, single_step

STACK_BYTES = 8 * 1024 * 1024
"""Enough for deeply nested JSON: from Python 3.12 msgspec recurses up to 10,000 levels, which takes 4 MB.

The memory is reserved but not used until then.
"""
MAX_BLOCKING_THREADS = 8192
"""Worker threads if waiting requests cannot be parked, so that each of them blocks a thread."""
LARGE_BODY_BYTES = 512 * 1024
LARGE_BODY_THREADS = 2
"""Worker threads for large bodies. Parsed JSON takes many times the memory of its text."""
SWEEP_INTERVAL_S = 5.0
EXTRA_POLLS = 2
"""Number of extra polls for appends before a group is written. Clients often send a request right after a response."""
MAX_FLUSH_WAIT_S = 0.25
"""How long the server thread waits for another thread that is writing appends."""

_log = logging.getLogger("annals")


class Server:
    """Serves the gateway on a socket until `stop` is called."""

    def __init__(
        self,
        gateway: Gateway,
        notifier: CommitNotifier,
        flush_appends: Callable[[float], bool],
        host: str,
        port: int,
        max_threads: int,
        max_connections: int,
        idle_timeout_s: float,
        has_slow_reads: bool = False,
    ) -> None:
        self._gateway = gateway
        self._flush_appends = flush_appends
        self._idle_timeout_s = idle_timeout_s
        self._sweep_interval_s = min(SWEEP_INTERVAL_S, idle_timeout_s / 4)
        self._parked = ParkedResponses(
            notifier, self._return_connection, self._resume_response, idle_timeout_s, has_slow_reads
        )
        self._loop = EventLoop()
        self._listener = Listener(host, port, self._loop, self._accept)
        threading.stack_size(STACK_BYTES)
        self._workers = ThreadPoolExecutor(max_threads, "annals")
        self._large_body_workers = ThreadPoolExecutor(LARGE_BODY_THREADS, "annals-large")
        self._connections = Connections(max_connections)
        self._deferred: list[tuple[Connection, DeferredResponse]] = []
        """Responses to appends that are queued but not written."""
        self._is_stopping = False

    @property
    def port(self) -> int:
        return self._listener.port

    def serve(self) -> None:
        """Accept connections and handle requests until `stop`, then until all current requests are finished."""
        self._sweep()
        while not self._is_stopping or self._connections:
            self._loop.run_once()
            for _ in range(EXTRA_POLLS):
                if len(self._deferred) > 1:
                    self._loop.run_once(max_wait_s=0.0)
            self._finish_appends()
            if self._is_stopping:
                self._close_idle(since=time.monotonic())
        self._workers.shutdown(wait=False)
        self._large_body_workers.shutdown(wait=False)
        self._listener.close()
        self._loop.close()

    def stop(self, release_waiting: Callable[[], None]) -> None:
        """Accept no more requests. `release_waiting` must end the waits of parked responses."""
        self._is_stopping = True
        release_waiting()
        self._loop.call_soon(self._listener.close)

    def _accept(self) -> None:
        if self._is_stopping:
            return
        if self._connections.is_full:
            self._evict_connections()
        try:
            while not self._connections.is_full and (sock := self._listener.accept()) is not None:
                connection = Connection(sock)
                self._connections.add(connection)
                self._watch(connection)
        except OSError as error:
            # Usually the process has no file descriptors left.
            _log.warning("cannot accept a connection: %s", error)
            self._evict_connections()

    def _watch(self, connection: Connection) -> None:
        def on_readable(_events: int) -> None:
            self._guarded(connection, self._on_readable)

        self._loop.register(connection.socket, selectors.EVENT_READ, on_readable)

    def _evict_connections(self) -> None:
        """Close connections that are idle, slow or not reading. Pause the listener if none could be closed at once."""
        evicted = self._connections.eviction_candidates(time.monotonic())
        for connection in evicted:
            if connection.is_idle:
                self._close(connection)
            else:
                with suppress(OSError):  # `ParkedResponses` notices and returns the connection.
                    connection.socket.shutdown(socket.SHUT_RDWR)
        if not any(connection.is_idle for connection in evicted):
            self._listener.pause()

    def _guarded(self, connection: Connection, action: Callable[[Connection], None]) -> None:
        """An error closes this connection and no other."""
        try:
            action(connection)
        except Exception:
            _log.exception("connection closed after an unexpected error")
            self._close(connection)

    def _on_readable(self, connection: Connection) -> None:
        if not connection.is_idle:
            return  # An append of this connection is queued. Input, or its end, matters after the response.
        try:
            connection.receive()
        except OSError:
            self._close(connection)
        else:
            self._process_requests(connection)

    def _process_requests(self, connection: Connection) -> None:
        """Handle the requests of the connection in order, until one needs more time."""
        while connection.is_idle and connection.parse_next():
            self._handle(connection, connection.start_request())
        if connection.is_idle and connection.is_eof:
            self._close(connection)
        elif connection.is_idle and connection.rejection is not None and not connection.is_rejection_sent:
            self._send_rejection(connection, connection.rejection)
        self._connections.update_body_bytes(connection)
        for upload in self._connections.slowest_uploads():
            detail = "the server receives too much data at once; try again later"
            rejection = RequestRejected(HTTPStatus.SERVICE_UNAVAILABLE, detail)
            upload.reject(rejection)
            self._connections.update_body_bytes(upload)
            self._send_rejection(upload, rejection)

    def _handle(self, connection: Connection, request: HttpRequest) -> None:
        route = self._gateway.find(request)
        if not self._gateway.can_run_in_server_thread(route, request):
            self._delegate(connection, lambda: self._gateway.respond(route, request))
            return
        response = self._gateway.respond(route, request)
        if isinstance(response, DeferredResponse):
            self._deferred.append((connection, response))
        elif isinstance(response, SuspendableResponse):
            self._delegate(connection, lambda: response)
        else:
            self._send(connection, response)

    def _send_rejection(self, connection: Connection, rejection: RequestRejected) -> None:
        """Send the problem and stop sending. The sweep closes the connection.

        Closing it at once could discard the response before the client has read it.
        """
        connection.is_rejection_sent = True
        problem = problems.problem(rejection.status, str(rejection))
        connection.waiting_since = time.monotonic() - self._idle_timeout_s + self._sweep_interval_s
        try:
            connection.try_send(encode_response(problem, keep_alive=False))
            connection.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(connection)

    def _finish_appends(self) -> None:
        """Write all queued appends together and send their responses."""
        while self._deferred:
            deferred, self._deferred = self._deferred, []
            self._flush_appends(MAX_FLUSH_WAIT_S)
            # Many responses share the future of their group, and asking it takes a lock.
            is_done = {future: future.done() for future in {response.future for _, response in deferred}}
            unfinished: dict[Future[Any], list[tuple[Connection, DeferredResponse]]] = {}
            for connection, response in deferred:
                if is_done[response.future]:
                    self._send(connection, problems.resolve(response))
                    if connection.has_input:  # Pipelined requests may append again.
                        self._guarded(connection, self._process_requests)
                else:
                    self._loop.unregister(connection.socket)
                    unfinished.setdefault(response.future, []).append((connection, response))
            for future, group in unfinished.items():
                future.add_done_callback(partial(self._on_group_done, group))

    def _on_group_done(self, group: Sequence[tuple[Connection, DeferredResponse]], _: object = None) -> None:
        """In any thread: the appends of these responses are finished."""
        self._loop.call_soon(partial(self._send_group, group))

    def _send_group(self, group: Sequence[tuple[Connection, DeferredResponse]]) -> None:
        for connection, response in group:
            self._guarded(connection, partial(self._send_deferred, response=response))

    def _send_deferred(self, connection: Connection, response: DeferredResponse) -> None:
        self._watch(connection)
        self._send(connection, problems.resolve(response))
        self._process_requests(connection)

    def _send_when_done(self, connection: Connection, response: DeferredResponse) -> None:
        """In any thread: send the response once its append is finished, and wait for that without a thread."""

        def on_done(_: object) -> None:
            if connection.active_body_bytes > MAX_SERVER_THREAD_BODY_BYTES:
                start = partial(self._start_steps, connection, lambda: problems.resolve(response))
                self._workers.submit(self._run_response, connection, start)
            else:
                self._on_group_done([(connection, response)])

        response.future.add_done_callback(on_done)

    def _send(self, connection: Connection, response: Response) -> None:
        connection.keep_alive = connection.keep_alive and not self._is_stopping
        try:
            unsent = connection.try_send(
                encode_response(response, connection.keep_alive, not connection.is_head_request)
            )
        except OSError:
            self._close(connection)
            return
        if unsent:
            self._loop.unregister(connection.socket)
            self._parked.park(connection, single_step(b""), unsent)
        else:
            self._finish_request(connection)

    def _finish_request(self, connection: Connection) -> None:
        connection.is_idle = True
        connection.active_body_bytes = 0
        connection.waiting_since = time.monotonic()
        self._connections.update_body_bytes(connection)
        if not connection.keep_alive or self._is_stopping:
            self._close(connection)

    def _delegate(self, connection: Connection, respond: Callable[[], Response]) -> None:
        self._loop.unregister(connection.socket)
        workers = self._large_body_workers if connection.active_body_bytes > LARGE_BODY_BYTES else self._workers
        workers.submit(self._run_response, connection, partial(self._start_steps, connection, respond))

    def _start_steps(self, connection: Connection, respond: Callable[[], Response]) -> Steps | None:
        """In a worker thread: call `respond`. None if its response is sent later, when an append is finished."""
        response = respond()
        if isinstance(response, DeferredResponse):
            self._flush_appends(0.0)
            self._send_when_done(connection, response)
            return None
        return response_steps(connection, response, lambda: self._is_stopping)

    def _run_response(self, connection: Connection, start: Callable[[], Steps | None]) -> None:
        """In a worker thread: create and send a response.

        Then return the connection, or park it when the response has to wait for a commit or for the client to read.
        """
        try:
            steps = start()
            if steps is None:
                return  # Another thread owns the connection now.
            for step in steps:
                pending = step if isinstance(step, Wait) else connection.try_send(step)
                if pending:
                    self._parked.park(connection, steps, pending)
                    return
        except OSError:
            connection.keep_alive = False  # The client has disconnected. Its request was carried out.
        except Exception:
            _log.exception("request failed with an unexpected error")
            connection.keep_alive = False
        self._return_connection(connection)

    def _resume_response(self, connection: Connection, steps: Steps) -> None:
        """In any thread: continue a parked response in a worker thread."""
        self._workers.submit(self._run_response, connection, lambda: steps)

    def _return_connection(self, connection: Connection) -> None:
        """In any thread: the response is sent, or the client has disconnected."""
        self._loop.call_soon(partial(self._guarded, connection, self._on_returned))

    def _on_returned(self, connection: Connection) -> None:
        self._watch(connection)
        self._finish_request(connection)
        self._process_requests(connection)

    def _sweep(self) -> None:
        now = time.monotonic()
        self._close_idle(since=now - self._idle_timeout_s)
        self._loop.call_at(now + self._sweep_interval_s, self._sweep)

    def _close_idle(self, since: float) -> None:
        for connection in self._connections.idle_since(since):
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        with suppress(KeyError, ValueError):
            self._loop.unregister(connection.socket)
        connection.close()
        self._connections.discard(connection)
