"""The server: a thread for each connection, and an end that loses nothing."""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable

from chalicelib.api import problems
from infra.embedded.gateway import Gateway
from infra.embedded.http import Connection, Rejected

BACKLOG = 1024
IDLE_S = 75.0
"""How long a client may keep a connection without a word, or leave a request unfinished."""
STACK_BYTES = 512 * 1024

_log = logging.getLogger("annals")


class Server:
    """Serves the gateway on a socket until told to stop."""

    def __init__(self, gateway: Gateway, host: str, port: int) -> None:
        self._gateway = gateway
        self._listener = _listening(host, port)
        self._lock = threading.Condition()
        self._connections: dict[socket.socket, bool] = {}
        """Each connection, and whether it is working on a request."""
        self._stopping = False

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Take connections until `stop`."""
        threading.stack_size(STACK_BYTES)
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._stopping:
                    return
                raise
            with self._lock:
                self._connections[sock] = False
            threading.Thread(target=self._converse, args=(sock,), daemon=True).start()

    def stop(self, release: Callable[[], None], grace_s: float = 10.0) -> bool:
        """Take no more, let those who wait go (`release`), let everybody finish; True if all did in time."""
        with self._lock:
            self._stopping = True
            idle = [sock for sock, busy in self._connections.items() if not busy]
        # shutdown wakes accept(), close alone does not.
        _shut(self._listener)
        self._listener.close()
        for sock in idle:
            _shut(sock)
        release()
        with self._lock:
            return self._lock.wait_for(lambda: not self._connections, grace_s)

    def _converse(self, sock: socket.socket) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(IDLE_S)
            self._answer_all(sock, Connection(sock))
        except (OSError, TimeoutError):
            pass  # the client is gone or silent; what it had asked for is done
        except Exception:
            _log.exception("connection given up")
        finally:
            sock.close()
            with self._lock:
                del self._connections[sock]
                self._lock.notify_all()

    def _answer_all(self, sock: socket.socket, connection: Connection) -> None:
        keep_alive = True
        while keep_alive:
            try:
                received = connection.request()
            except Rejected as rejection:
                connection.send(problems.problem(rejection.status, str(rejection)).to_dict(), keep_alive=False)
                return
            if received is None:
                return
            request, keep_alive = received
            self._connections[sock] = True
            answer = self._gateway.answer(request)
            keep_alive = keep_alive and not self._stopping
            connection.send(answer, keep_alive)
            self._connections[sock] = False


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be closed already
        sock.shutdown(socket.SHUT_RD)
