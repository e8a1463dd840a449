"""The listener: where clients come in."""

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress

BACKLOG = 1024


class Listener:
    """A listening socket that calls `knocked` when somebody waits, unless it is paused."""

    def __init__(self, host: str, port: int, selector: selectors.BaseSelector, knocked: Callable[[], None]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self._selector = selector
        self._knocked = knocked
        self._is_paused = True
        self.resume()

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def accept(self) -> socket.socket | None:
        """The next client; None if it is gone again. Raises `OSError` if there is no descriptor left."""
        try:
            return self._socket.accept()[0]
        except BlockingIOError:
            return None

    def pause(self) -> None:
        """Let clients wait outside."""
        self._is_paused = True
        self._selector.unregister(self._socket)

    def resume(self) -> None:
        """Let them in again."""
        if self._is_paused and self._socket.fileno() >= 0:
            self._is_paused = False
            self._selector.register(self._socket, selectors.EVENT_READ, self._knocked)

    def close(self) -> None:
        """Let nobody in any more."""
        with suppress(KeyError, ValueError):  # it is paused, or was closed before
            self._selector.unregister(self._socket)
        self._socket.close()
