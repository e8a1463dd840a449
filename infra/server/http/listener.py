"""The listening socket."""

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from infra.server.http.event_loop import EventLoop, Timer

BACKLOG = 1024
PAUSE_S = 0.2
"""Pause of the listener while the server has no room for more connections."""


class Listener:
    """Calls `on_connection` while clients wait to be accepted, except during a pause."""

    def __init__(self, host: str, port: int, loop: EventLoop, on_connection: Callable[[], None]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self._loop = loop
        self._on_connection = on_connection
        self._pause: Timer | None = None
        self._resume()

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def accept(self) -> socket.socket | None:
        """The next client, if one is waiting. Raises `OSError` if there is no file descriptor left."""
        try:
            return self._socket.accept()[0]
        except BlockingIOError:
            return None

    def pause(self) -> None:
        """Accept no connection for a short time. Clients wait in the kernel's backlog."""
        self._loop.unregister(self._socket)
        self._pause = self._loop.call_at(time.monotonic() + PAUSE_S, self._resume)

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        with suppress(KeyError, ValueError):  # It is paused, or was closed before.
            self._loop.unregister(self._socket)
        self._socket.close()

    def _resume(self) -> None:
        self._pause = None
        self._loop.register(self._socket, selectors.EVENT_READ, lambda _events: self._on_connection())
