"""Group commit: requests that wait together are written together, each its own session.

Requests gather in a queue. Whoever needs an outcome first writes the whole queue; the others find theirs done. So one
caller alone pays no hand-over, and many pay for one fsync. A caller in a hurry tries once: if the store does not
answer, a thread goes on with it, and meanwhile nobody else is kept waiting in vain.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

from chalicelib.domain.errors import Busy
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.write_plan import Outcome, Writing

MOST_TOGETHER = 256
MOMENT_S = 0.25
"""How long one in a hurry waits for others who write."""
SLOW_S = 1.0
"""A store that has not answered for so long is too slow for more requests."""


class Waiting:
    """A request in the queue."""

    __slots__ = ("_commit", "append", "asleep", "deadline", "outcome", "tell")

    def __init__(self, append: Append, deadline: float, commit: "GroupCommit") -> None:
        self.append = append
        self.deadline = deadline
        self.outcome: Outcome | BaseException | None = None
        self.tell: Callable[[], object] | None = None
        """Who is told, if anybody, when the outcome is known."""
        self.asleep: threading.Lock | None = None
        """What a caller waits for who sleeps until the outcome is known, or until it is its turn to write."""
        self._commit = commit

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.outcome is not None

    def hurried(self) -> bool:
        """Have it written if the store answers at once; whether the outcome is known."""
        while not self.done and self._commit.write_in_a_hurry():
            pass
        return self.done

    def then(self, tell: Callable[[], object]) -> None:
        """Have `tell` called, by whoever writes, when the outcome is known; perhaps at once."""
        self._commit.tell_of(self, tell)

    def result(self) -> Appended:
        """The commit, or raise why there is none."""
        while self.outcome is None:
            self._commit.write_or_wait(self)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class _Group(NamedTuple):
    """Requests that are written together."""

    waiting: list[Waiting]
    writing: Writing


class GroupCommit:
    """Appends for many callers of one process."""

    def __init__(self, appender: Appender, written: Callable[[Commit], None]) -> None:
        self._appender = appender
        self._written = written
        self._mutex = threading.Lock()
        self._turn = threading.Lock()
        self._queue: list[Waiting] = []
        self._begun: _Group | None = None
        """The group that is to be tried again; changed only by who has the turn."""
        self._slow_since: float | None = None
        self._goes_on = False
        """Whether a thread takes care of what those in a hurry left behind."""

    def submit(self, append: Append) -> Waiting:
        """Queue a request; it is written when somebody asks for its result, or for that of another in the queue."""
        since = self._slow_since
        if since is not None and self._appender.monotonic() - since > SLOW_S:
            raise Busy("the store is slow to answer; nothing was written")
        waiting = Waiting(self._appender.checked(append), self._appender.deadline(), self)
        with self._mutex:
            self._queue.append(waiting)
        return waiting

    def append(self, append: Append) -> Appended:
        """Write one request, or raise why it is refused."""
        return self.submit(append).result()

    def write(self) -> None:
        """Write what is in the queue; while others write, more gathers there."""
        with self._turn:
            self._write()
        self._pass_on()

    def write_or_wait(self, waiting: Waiting) -> None:
        """Write what is in the queue, or sleep while others write; return when there may be something to do.

        Whoever sleeps is woken by name: a crowd at the lock would have to go through it one by one, to find that all
        is done.
        """
        if not self._turn.acquire(blocking=False):
            lock = threading.Lock()
            lock.acquire()
            with self._mutex:
                if waiting.done:
                    return
                waiting.asleep = lock
            # Whoever wrote may have looked for sleepers a moment ago: then nobody writes now.
            if not self._turn.acquire(blocking=False):
                lock.acquire()
                return
            waiting.asleep = None
        try:
            self._write()
        finally:
            self._turn.release()
        self._pass_on()

    def write_in_a_hurry(self) -> bool:
        """Write what is in the queue, if that takes a moment; False: a thread of its own goes on with it."""
        if self._turn.acquire(timeout=MOMENT_S):
            try:
                is_new = self._begun is None
                group = self._next()
                is_settled = group is None or (is_new and self._is_settled(group))
            finally:
                self._turn.release()
            self._pass_on()
            if is_settled:
                return True
        with self._mutex:
            begins, self._goes_on = not self._goes_on, True
        if begins:
            threading.Thread(target=self._go_on, name="annals-writer", daemon=True).start()
        return False

    def tell_of(self, waiting: Waiting, tell: Callable[[], object]) -> None:
        """Have `tell` called when the outcome of `waiting` is known."""
        with self._mutex:
            if not waiting.done:
                waiting.tell = tell
                return
        tell()

    def _go_on(self) -> None:
        """Until nothing is left behind."""
        while True:
            self.write()
            with self._mutex:
                if not self._queue and self._begun is None:
                    self._goes_on = False
                    return

    def _write(self) -> None:
        """Write the next group, however long that takes; for who has the turn."""
        group = self._next()
        while group is not None and not self._is_settled(group):
            self._appender.pause(group.writing)

    def _pass_on(self) -> None:
        """Wake somebody who sleeps and has not been written yet: it is their turn."""
        if self._queue:
            with self._mutex:
                sleeper = next((one for one in self._queue if one.asleep is not None), None)
                if sleeper is not None:
                    _wake(sleeper)

    def _next(self) -> _Group | None:
        """The group that is to be tried now; for who has the turn."""
        if self._begun is None:
            with self._mutex:
                taken, self._queue = self._queue, []
                if len(taken) > MOST_TOGETHER:
                    taken, self._queue = taken[:MOST_TOGETHER], taken[MOST_TOGETHER:]
            if taken:
                # Who came first has the earliest deadline.
                writing = self._appender.begin([waiting.append for waiting in taken], taken[0].deadline)
                self._begun = _Group(taken, writing)
        return self._begun

    def _is_settled(self, group: _Group) -> bool:
        """Try once; whether the outcomes of the group are known, and everybody has theirs."""
        outcomes: list[Outcome] | list[BaseException] | None
        try:
            outcomes = self._appender.attempt(group.writing)
        except BaseException as failure:
            outcomes = [failure] * len(group.waiting)
        if outcomes is None:
            self._slow_since = self._slow_since or self._appender.monotonic()
            return False
        self._begun = self._slow_since = None
        with self._mutex:
            for waiting, outcome in zip(group.waiting, outcomes, strict=True):
                waiting.outcome = outcome
                if waiting.asleep is not None:
                    _wake(waiting)
        self._tell(group)
        return True

    def _tell(self, group: _Group) -> None:
        for waiting in group.waiting:
            if isinstance(waiting.outcome, Appended) and not waiting.outcome.replayed:
                self._written(waiting.outcome.commit)
            if waiting.tell is not None:
                waiting.tell()


def _wake(waiting: Waiting) -> None:
    """For who has the mutex: nobody is woken twice."""
    lock, waiting.asleep = waiting.asleep, None
    if lock is not None:
        lock.release()
