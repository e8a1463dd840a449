"""Group commit: requests that wait together are written together, each its own session.

Requests gather in a queue. Whoever needs an outcome first writes the whole queue; the others find theirs done. So one
caller alone pays no hand-over, and many pay for one fsync.
"""

import threading
from collections.abc import Callable

from chalicelib.domain.appends import Append
from chalicelib.domain.commits import Appended, Commit
from chalicelib.services.append import Appender, Outcome

MOST_TOGETHER = 256


class Waiting:
    """A request in the queue."""

    __slots__ = ("_commit", "append", "outcome")

    def __init__(self, append: Append, commit: "GroupCommit") -> None:
        self.append = append
        self.outcome: Outcome | BaseException | None = None
        self._commit = commit

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.outcome is not None

    def result(self) -> Appended:
        """The commit, or raise why there is none."""
        while self.outcome is None:
            self._commit.write()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class GroupCommit:
    """Appends for many callers of one process."""

    def __init__(self, appender: Appender, written: Callable[[Commit], None]) -> None:
        self._appender = appender
        self._written = written
        self._mutex = threading.Lock()
        self._turn = threading.Lock()
        self._queue: list[Waiting] = []

    def submit(self, append: Append) -> Waiting:
        """Queue a request; it is written when somebody asks for its result, or for that of another in the queue."""
        waiting = Waiting(self._appender.checked(append), self)
        with self._mutex:
            self._queue.append(waiting)
        return waiting

    def append(self, append: Append) -> Appended:
        """Write one request, or raise why it is refused."""
        return self.submit(append).result()

    def write(self) -> None:
        """Write what is in the queue; while others write, more gathers there."""
        with self._turn:
            with self._mutex:
                group, self._queue = self._queue[:MOST_TOGETHER], self._queue[MOST_TOGETHER:]
            if group:
                self._write(group)

    def _write(self, group: list[Waiting]) -> None:
        outcomes: list[Outcome] | list[BaseException]
        try:
            outcomes = self._appender.append_group([waiting.append for waiting in group])
        except BaseException as failure:
            outcomes = [failure] * len(group)
        for waiting, outcome in zip(group, outcomes, strict=True):
            waiting.outcome = outcome
            if isinstance(outcome, Appended) and not outcome.replayed:
                self._written(outcome.commit)
