"""Group commit: appends that are queued together share one write and one fsync, each with a session of its own.

Threads: any thread may call `submit`, `append` and `flush`. The thread that holds `_flush_lock` writes. Appends that it
leaves in the queue, and groups that the store did not accept at once, are written by the background thread
`annals-writer`. While that thread is at work, `append` leaves the writing to it, so that groups are large. The threads
`annals-condition` check the conditions of submitted appends, because that may read a long log.
Locks: `_flush_lock` is held while a group is written and protects `_retried_group`. `_queue_lock` protects `_queue` and
`_is_draining` and is never held while writing. Order: `_flush_lock`, then `_queue_lock`.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from chalicelib.domain.errors import Busy
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.log.outcome import Outcome, SubmittedAppend
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.write_plan import GroupWrite

MAX_GROUP_SIZE = 256
CONDITION_THREADS = 8
MAX_STALL_S = 1.0
"""New appends are refused once no group could be written for this long."""

_log = logging.getLogger("annals")


class _Group(NamedTuple):
    """Appends that are written together. More are added while the group is in the queue."""

    write: GroupWrite
    future: Future[Sequence[Outcome]]


class GroupCommit:
    """Queues the appends of one process and writes them in groups, in the order of submission."""

    def __init__(self, appender: Appender, on_commit: Callable[[Commit], None]) -> None:
        self._appender = appender
        self._on_commit = on_commit
        self._queue_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._queue: deque[_Group] = deque()
        """New appends are added to the last group."""
        self._retried_group: _Group | None = None
        """The group whose last attempt failed, by a conflict or without an answer. It is written before any other."""
        self._stalled_since: float | None = None
        self._is_draining = False
        """Whether the background thread is at work."""
        self._background = ThreadPoolExecutor(1, "annals-writer")
        self._conditions = ThreadPoolExecutor(CONDITION_THREADS, "annals-condition")

    def submit(self, append: Append) -> SubmittedAppend:
        """Queue an append without waiting for the disk. The caller must call `flush` afterwards.

        An append with a condition is checked and written by another thread: it may be finished after `flush`.
        Raises `Busy` if no group could be written for `MAX_STALL_S`.
        """
        if append.condition is None:
            return self._enqueue(append)[0]
        return SubmittedAppend(self._conditions.submit(lambda: [self.append(append)]), 0)

    def append(self, append: Append) -> Appended:
        """Write one append and wait for its outcome. Raises the reason if it is refused."""
        submitted, is_draining = self._enqueue(self._appender.precheck(append))
        if not is_draining:
            self.flush(max_wait_s=0.0)
        return submitted.result()

    def _enqueue(self, append: Append) -> tuple[SubmittedAppend, bool]:
        """Queue the append, and return whether the background thread is going to write it."""
        since = self._stalled_since
        if since is not None and self._appender.monotonic() - since > MAX_STALL_S:
            raise Busy("the store is slow to answer; nothing was written")
        with self._queue_lock:
            if not self._queue or len(self._queue[-1].write.appends) >= MAX_GROUP_SIZE:
                # The first append of a group has the earliest deadline.
                self._queue.append(_Group(self._appender.begin([], self._appender.deadline()), Future()))
            write, future = self._queue[-1]
            write.appends.append(append)
            return SubmittedAppend(future, len(write.appends) - 1), self._is_draining

    def flush(self, max_wait_s: float) -> bool:
        """Write the queued appends and return whether all of them are finished.

        Waits at most `max_wait_s` for another writing thread, and tries each group once. The background thread takes
        over if that is not enough: use `Future.add_done_callback` for the unfinished appends.
        """
        is_flushed = False
        try:
            if self._flush_lock.acquire(timeout=max_wait_s):
                try:
                    is_flushed = self._write_queue()
                finally:
                    self._flush_lock.release()
        finally:
            self._drain_leftovers()
        return is_flushed

    def _write_queue(self) -> bool:
        """Try once to write all queued appends. The caller holds `_flush_lock`."""
        # Only the holder of the lock takes groups from the queue. Those that are added meanwhile can wait.
        is_written, remaining = self._retried_group is None, len(self._queue)
        while is_written and remaining > 0:
            remaining -= 1
            is_written = self._try_write(self._next_group())
        return is_written

    def _drain_leftovers(self) -> None:
        """Start the background thread if appends are left. To be called without `_flush_lock`."""
        if self._queue or self._retried_group is not None:
            with self._queue_lock:
                is_draining, self._is_draining = self._is_draining, True
            if not is_draining:
                self._background.submit(self._drain)

    def _drain(self) -> None:
        while True:
            try:
                with self._flush_lock:
                    self._write_next_group()
            except (
                Exception
            ):  # `on_commit` failed. The futures of the group are completed; write the other appends too.
                _log.exception("unexpected error in the background writer")
            with self._queue_lock:
                if not self._queue and self._retried_group is None:
                    self._is_draining = False
                    return

    def _write_next_group(self) -> None:
        """Write one group, with retries until its deadline. The caller holds `_flush_lock`."""
        if self._retried_group is None and not self._queue:
            return
        group = self._next_group()
        while not self._try_write(group):
            self._appender.pause(group.write)

    def _next_group(self) -> _Group:
        """The group to write now. The caller holds `_flush_lock`, and something is queued."""
        if self._retried_group is not None:
            return self._retried_group
        with self._queue_lock:
            return self._queue.popleft()

    def _try_write(self, group: _Group) -> bool:
        """Try once to write the group and return whether its future is completed."""
        try:
            outcomes = self._appender.attempt(group.write)
        except BaseException as error:
            self._retried_group = self._stalled_since = None
            group.future.set_exception(error)
            return True
        if outcomes is None:
            self._retried_group = group
            self._stalled_since = self._stalled_since or self._appender.monotonic()
            return False
        self._retried_group = self._stalled_since = None
        group.future.set_result(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, Appended) and not outcome.replayed:
                self._on_commit(outcome.commit)
        return True
