"""The two ways to learn that a log has grown: be told, or look again."""

import threading
import time
from collections.abc import Callable

FIRST_LOOK_S = 0.025
LATEST_LOOK_S = 0.25


class Bell:
    """Told by the writers of this process: wakes those who wait at once."""

    def __init__(self) -> None:
        self._rung = threading.Condition()
        self._sessions: dict[int, int] = {}
        self._open = True

    def ring(self, server: int, session: int) -> None:
        """The log of `server` now has `session`."""
        with self._rung:
            if session > self._sessions.get(server, 0):
                self._sessions[server] = session
                self._rung.notify_all()

    def wait(self, server: int, session: int, timeout_s: float, turn: int) -> bool:
        """Return when the log has grown past `session`, or after `timeout_s`; False once closed."""
        del turn
        with self._rung:
            self._rung.wait_for(
                lambda: not self._open or self._sessions.get(server, 0) > session,
                min(timeout_s, threading.TIMEOUT_MAX),
            )
            return self._open

    def close(self) -> None:
        """Send everybody who waits home."""
        with self._rung:
            self._open = False
            self._rung.notify_all()


class Looking:
    """Nobody tells: look again, soon at first, then less often."""

    def __init__(self, pause: Callable[[float], None] = time.sleep) -> None:
        self._pause = pause
        self._open = True

    def wait(self, server: int, session: int, timeout_s: float, turn: int) -> bool:
        """Return when it is time to look again."""
        del server, session
        self._pause(min(timeout_s, LATEST_LOOK_S, FIRST_LOOK_S * 2 ** min(turn, 8)))
        return self._open

    def close(self) -> None:
        """Let nobody look any more."""
        self._open = False
