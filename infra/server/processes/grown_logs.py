"""Finds the logs with commits that the consumer worker has not handled."""

import time
from collections.abc import Callable, Mapping

MAX_SCAN_SHARE = 1 / 6
"""Maximum share of a processor that scans use, if there are many logs."""
MANY_LOGS = 1_000


class GrownLogs:
    """Compares where the logs end with where each kind of work has ended. For one thread.

    A scan costs one index lookup per log, whichever process has written. What was handled is not stored: after a
    restart every log counts as grown once, and the checkpoints of the consumers tell what is new.
    """

    def __init__(
        self,
        last_sessions: Callable[[], Mapping[int, int]],
        monotonic: Callable[[], float] = time.monotonic,
        processor_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._read_last_sessions = last_sessions
        self._monotonic = monotonic
        self._processor_time = processor_time
        self._next_scan = 0.0
        self.last_sessions: Mapping[int, int] = {}
        """The last session of each log, as of the last scan."""

    def scan(self) -> bool:
        """Read where the logs end. Returns False if it is too early for another scan."""
        if self._monotonic() < self._next_scan:
            return False
        start = self._processor_time()
        self.last_sessions = self._read_last_sessions()
        if len(self.last_sessions) > MANY_LOGS:
            used_s = self._processor_time() - start
            self._next_scan = self._monotonic() + used_s * (1 / MAX_SCAN_SHARE - 1)
        return True

    def since(self, handled: Mapping[int, int]) -> list[int]:
        """The logs that do not end where they were handled, in ascending order."""
        return sorted(server for server, session in self.last_sessions.items() if handled.get(server) != session)
