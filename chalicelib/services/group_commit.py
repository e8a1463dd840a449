"""Group commit: requests that wait together are written together, each its own session.

The first to come leads: it writes all that have gathered and then hands the lead to the first of those who gathered
meanwhile. So one caller alone pays no hand-over, and many pay for one fsync.
"""

import threading
from collections.abc import Callable

from chalicelib.domain.appends import Append
from chalicelib.domain.commits import Appended
from chalicelib.services.append import Appender, Outcome

MOST_TOGETHER = 256


class _Waiting:
    """A request in the queue; its lock opens when its outcome is there, or the lead is handed to it."""

    __slots__ = ("append", "outcome", "turn")

    def __init__(self, append: Append) -> None:
        self.append = append
        self.outcome: Outcome | BaseException | None = None
        self.turn = threading.Lock()
        self.turn.acquire()


class GroupCommit:
    """Appends for many threads of one process."""

    def __init__(self, appender: Appender, written: Callable[[int, int], None]) -> None:
        self._appender = appender
        self._written = written
        self._mutex = threading.Lock()
        self._queue: list[_Waiting] = []
        self._led = False

    def append(self, append: Append) -> Appended:
        """Write one request, or raise why it is refused."""
        waiting = _Waiting(self._appender.checked(append))
        if not self._joins(waiting):
            waiting.turn.acquire()
        if waiting.outcome is None:
            self._lead()
        match waiting.outcome:
            case Appended() as appended:
                return appended
            case BaseException() as failure:
                raise failure
            case None:
                raise RuntimeError("the leader forgot its own request")

    def _joins(self, waiting: _Waiting) -> bool:
        """Queue up; True if nobody leads, so that the caller has to."""
        with self._mutex:
            self._queue.append(waiting)
            leads, self._led = not self._led, True
        return leads

    def _lead(self) -> None:
        """Write the queue, wake all who were in it, hand on the lead."""
        with self._mutex:
            group, self._queue = self._queue[:MOST_TOGETHER], self._queue[MOST_TOGETHER:]
        try:
            outcomes: list[Outcome] | list[BaseException] = self._appender.append_group([w.append for w in group])
        except BaseException as failure:
            outcomes = [failure] * len(group)
        with self._mutex:
            successor = self._queue[0] if self._queue else None
            self._led = successor is not None
        if successor is not None:
            successor.turn.release()
        for waiting, outcome in zip(group, outcomes, strict=True):
            waiting.outcome = outcome
            waiting.turn.release()
        self._tell(outcomes)

    def _tell(self, outcomes: list[Outcome] | list[BaseException]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Appended):
                self._written(outcome.commit.server, outcome.commit.session)
