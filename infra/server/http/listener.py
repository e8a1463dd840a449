"""The listener: where clients come in."""

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress

BACKLOG = 1024
PAUSE_S = 0.2
"""So long clients wait outside before it is seen again whether there is room."""


class Listener:
    """A listening socket that calls `knocked` when somebody waits, unless it is paused."""

    def __init__(self, host: str, port: int, selector: selectors.BaseSelector, knocked: Callable[[], None]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self._selector = selector
        self._knocked = knocked
        self._paused_until: float | None = 0.0
        self.resume()

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def accept(self) -> socket.socket | None:
        """The next client; None if there is none. Raises `OSError` if there is no descriptor left."""
        try:
            return self._socket.accept()[0]
        except BlockingIOError:
            return None

    @property
    def is_paused(self) -> bool:
        """Whether clients wait outside."""
        return self._paused_until is not None

    def pause(self) -> None:
        """Let clients wait outside for a moment."""
        self._paused_until = time.monotonic() + PAUSE_S
        self._selector.unregister(self._socket)

    def resume(self) -> None:
        """Let them in again, if they have waited outside for long enough."""
        if self._paused_until is not None and time.monotonic() >= self._paused_until:
            self._paused_until = None
            self._selector.register(self._socket, selectors.EVENT_READ, self._knocked)

    def close(self) -> None:
        """Let nobody in any more."""
        with suppress(KeyError, ValueError):  # it is paused, or was closed before
            self._selector.unregister(self._socket)
        self._socket.close()
