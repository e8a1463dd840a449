"""The server: one thread reads all sockets and answers what takes no time; what takes long gets a thread of its own.

Appends are answered on the reading thread: all that came in together, and meanwhile, are parsed first and then written
together. So they share one fsync, and no thread has to wait for its turn of the interpreter. An answer that has come to
a wait goes to the waiting room.
"""

import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus

from chalice.app import Response

from chalicelib.http import problems
from chalicelib.http.responses import Later, Stepwise
from chalicelib.services.feeds.notifiers import Bell
from chalicelib.services.feeds.suspension import Wait
from infra.server.gateway.gateway import Gateway, HttpRequest
from infra.server.http.connection import Connection
from infra.server.http.connections import Connections
from infra.server.http.head_cache import KnownHeads
from infra.server.http.listener import PAUSE_S, Listener
from infra.server.http.parked_responses import WaitingRoom
from infra.server.http.protocol import Rejected, Steps, answer_bytes
from infra.server.http.response_writer import answered, just

STACK_BYTES = 512 * 1024
MOST_WAITING = 8192
"""Requests that may wait at once, each in a thread, if they cannot go to the waiting room."""
WORKERS = 32
"""Threads for what takes long, if nothing waits in them."""
HEAVY_BYTES = 512 * 1024
HEAVY_WORKERS = 2
"""Threads for bodies larger than any good one: what is parsed takes many times the memory of its text."""
_SWEEP_S = 5.0
_LOOKS = 2
"""So often it is looked for more appends before some are written: who has just had an answer asks again at once."""

_log = logging.getLogger("annals")


class Server:
    """Serves the gateway on a socket until told to stop."""

    def __init__(
        self,
        gateway: Gateway,
        bell: Bell,
        host: str,
        port: int,
        most_threads: int,
        most_connections: int,
        idle_s: float,
    ) -> None:
        self._gateway = gateway
        self._idle_s = idle_s
        self._sweep_s = min(_SWEEP_S, idle_s / 4)
        self._waiting_room = WaitingRoom(bell, self._bring_back, self._take_steps, idle_s)
        self._selector = selectors.DefaultSelector()
        self._listener = Listener(host, port, self._selector, self._accept)
        self._bell, self._ear = socket.socketpair()
        self._selector.register(self._ear, selectors.EVENT_READ, self._hear)
        threading.stack_size(STACK_BYTES)
        self._workers = ThreadPoolExecutor(most_threads, "annals")
        self._heavy_workers = ThreadPoolExecutor(HEAVY_WORKERS, "annals-heavy")
        self._connections = Connections(most_connections)
        self._heads = KnownHeads()
        self._unsettled: list[tuple[Connection, Later]] = []
        self._returned: deque[Connection] = deque()
        self._stopping = False

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._listener.port

    def serve(self) -> None:
        """Take connections and answer requests until `stop`, and then until all that is under way is done."""
        swept = time.monotonic()
        while not self._stopping or self._connections:
            self._look(PAUSE_S if self._listener.is_paused else self._sweep_s)
            for _ in range(_LOOKS):
                if len(self._unsettled) > 1:
                    self._look(0)
            self._settle()
            now = time.monotonic()
            if self._stopping:
                self._close_silent(since=now)
                continue
            self._listener.resume()
            if now - swept > self._sweep_s:
                swept = now
                self._close_silent(since=now - self._idle_s)
        self._workers.shutdown(wait=False)
        self._heavy_workers.shutdown(wait=False)
        for own in (self._listener, self._selector, self._bell, self._ear):
            own.close()

    def stop(self, release: Callable[[], None]) -> None:
        """Take no more requests and let those who wait go (`release`); `serve` ends when all have their answers."""
        self._stopping = True
        release()
        self._ring()

    def _look(self, patience_s: float) -> None:
        """See who has something to say, and take it."""
        for key, _ in self._selector.select(patience_s):
            if isinstance(key.data, Connection):
                self._guarded(key.data, self._read)
            else:
                key.data()

    def _accept(self) -> None:
        if self._stopping:
            return
        if self._connections.are_full:
            self._make_room()
        try:
            while not self._connections.are_full and (sock := self._listener.accept()) is not None:
                connection = Connection(sock, self._heads)
                self._connections.add(connection)
                self._selector.register(sock, selectors.EVENT_READ, connection)
        except OSError as failure:
            # Out of descriptors, mostly.
            _log.warning("no connection can be taken: %s", failure)
            self._make_room()

    def _make_room(self) -> None:
        """Let some go who keep us waiting; if it is not at once that they go, new clients wait outside for a moment."""
        found = self._connections.longest_waited_for(time.monotonic())
        for connection in found:
            if connection.is_idle:
                self._close(connection)
            else:
                with suppress(OSError):  # the waiting room notices, and brings it back
                    connection.socket.shutdown(socket.SHUT_RDWR)
        if not any(connection.is_idle for connection in found):
            self._listener.pause()

    def _hear(self) -> None:
        """Workers have brought connections back, or the server is to stop."""
        self._ear.recv(4096)
        if self._stopping:
            self._listener.close()
        while self._returned:
            connection = self._returned.popleft()
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            self._answered(connection)
            self._guarded(connection, self._go_on)

    def _guarded(self, connection: Connection, act: Callable[[Connection], None]) -> None:
        """Whatever goes wrong with one connection, the others are served on."""
        try:
            act(connection)
        except Exception:
            _log.exception("a connection is given up")
            self._close(connection)

    def _read(self, connection: Connection) -> None:
        if not connection.is_idle:
            return  # what it says now, or that it is gone, is of interest when it has its answer
        try:
            connection.keep()
        except OSError:
            self._close(connection)
        else:
            self._go_on(connection)

    def _go_on(self, connection: Connection) -> None:
        """Answer the connection's requests one after the other, as long as that takes no time."""
        while connection.is_idle and (connection.requests or connection.take_kept()):
            self._answer(connection, connection.begin())
        if connection.is_idle and connection.has_ended:
            self._close(connection)
        elif connection.is_idle and connection.rejection is not None and not connection.is_told:
            self._reject(connection, connection.rejection)
        self._connections.weigh(connection)
        for one in self._connections.longest_sending():
            refusal = Rejected(HTTPStatus.SERVICE_UNAVAILABLE, "too much is being sent at once; try again later")
            one.reject(refusal)
            self._connections.weigh(one)
            self._reject(one, refusal)

    def _answer(self, connection: Connection, request: HttpRequest) -> None:
        if not self._gateway.is_prompt(request):
            self._delegate(connection, lambda: self._gateway.answer(request))
            return
        answer = self._gateway.answer(request)
        if isinstance(answer, Later):
            self._unsettled.append((connection, answer))
        elif isinstance(answer, Stepwise):
            self._delegate(connection, lambda: answer)
        else:
            self._send(connection, answer)

    def _reject(self, connection: Connection, rejection: Rejected) -> None:
        """Tell the client, and wait until it has read that: closing at once could take it away again."""
        connection.is_told = True
        problem = problems.problem(rejection.status, str(rejection))
        connection.waits_since = time.monotonic() - self._idle_s + self._sweep_s
        try:
            connection.send_now(answer_bytes(problem, keep_alive=False))
            connection.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(connection)

    def _settle(self) -> None:
        """Get the outcomes of all appends that came in together: the first one to be asked for writes them all."""
        while self._unsettled:
            together, self._unsettled = self._unsettled, []
            for connection, later in together:
                if later.pending.hurried():
                    self._send(connection, later.settle())
                    self._guarded(connection, self._go_on)
                else:
                    self._settle_later(connection, later)

    def _settle_later(self, connection: Connection, later: Later) -> None:
        """The store does not answer: others are served meanwhile."""
        self._selector.unregister(connection.socket)
        steps = partial(answered, connection, lambda: later, lambda: self._stopping)
        later.pending.then(lambda: self._workers.submit(self._work, connection, steps))

    def _send(self, connection: Connection, answer: Response) -> None:
        connection.stays = connection.stays and not self._stopping
        try:
            rest = connection.send_now(answer_bytes(answer, connection.stays, not connection.is_head))
        except OSError:
            self._close(connection)
            return
        if rest:
            self._selector.unregister(connection.socket)
            self._waiting_room.enter(connection, just(b""), rest)
        else:
            self._answered(connection)

    def _answered(self, connection: Connection) -> None:
        connection.is_idle = True
        connection.at_work_bytes = 0
        connection.waits_since = time.monotonic()
        if not connection.stays or self._stopping:
            self._close(connection)

    def _delegate(self, connection: Connection, answer: Callable[[], Response]) -> None:
        self._selector.unregister(connection.socket)
        workers = self._heavy_workers if connection.at_work_bytes > HEAVY_BYTES else self._workers
        workers.submit(self._work, connection, partial(answered, connection, answer, lambda: self._stopping))

    def _work(self, connection: Connection, answering: Callable[[], Steps]) -> None:
        """In a thread of its own: find the answer, send it, and bring the connection back, or have it wait.

        It waits for something in a log, or for the client to read what does not go at once.
        """
        try:
            steps = answering()
            for step in steps:
                rest = step if isinstance(step, Wait) else connection.send_now(step)
                if rest:
                    self._waiting_room.enter(connection, steps, rest)
                    return
        except OSError:
            connection.stays = False  # the client is gone; what it had asked for is done
        except Exception:
            _log.exception("a request could not be answered")
            connection.stays = False
        self._bring_back(connection)

    def _take_steps(self, connection: Connection, steps: Steps) -> None:
        """From the waiting room: there is more to find out and to send."""
        self._workers.submit(self._work, connection, lambda: steps)

    def _bring_back(self, connection: Connection) -> None:
        """From any thread: the connection's answer is sent, or its client is gone."""
        self._returned.append(connection)
        self._ring()

    def _ring(self) -> None:
        with suppress(OSError):  # the server is gone
            self._bell.send(b"!")

    def _close_silent(self, since: float) -> None:
        for connection in self._connections.silent(since):
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.close()
        self._connections.discard(connection)
