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
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from chalicelib.domain.errors import Busy
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.write_plan import GroupWrite, Outcome

MAX_GROUP_SIZE = 256
CONDITION_THREADS = 8
MAX_STALL_S = 1.0
"""New appends are refused once no group could be written for this long."""

_log = logging.getLogger("annals")


class _QueuedAppend(NamedTuple):
    append: Append
    deadline: float
    future: Future[Appended]


class _Group(NamedTuple):
    """Appends that are written together."""

    queued: list[_QueuedAppend]
    write: GroupWrite


class GroupCommit:
    """Queues the appends of one process and writes them in groups, in the order of submission."""

    def __init__(self, appender: Appender, on_commit: Callable[[Commit], None]) -> None:
        self._appender = appender
        self._on_commit = on_commit
        self._queue_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._queue: list[_QueuedAppend] = []
        self._retried_group: _Group | None = None
        """The group whose last attempt failed, by a conflict or without an answer. It is written before any other."""
        self._stalled_since: float | None = None
        self._is_draining = False
        """Whether the background thread is at work."""
        self._background = ThreadPoolExecutor(1, "annals-writer")
        self._conditions = ThreadPoolExecutor(CONDITION_THREADS, "annals-condition")

    def submit(self, append: Append) -> Future[Appended]:
        """Queue an append without waiting for the disk. The caller must call `flush` afterwards.

        An append with a condition is checked and written by another thread: its future may complete after `flush`.
        Raises `Busy` if no group could be written for `MAX_STALL_S`.
        """
        if append.condition is None:
            return self._enqueue(append)[0]
        future: Future[Appended] = Future()
        self._conditions.submit(self._append_conditionally, append, future)
        return future

    def append(self, append: Append) -> Appended:
        """Write one append and wait for its outcome. Raises the reason if it is refused."""
        future, is_draining = self._enqueue(append)
        if not is_draining:
            self.flush(max_wait_s=0.0)
        return future.result()

    def _append_conditionally(self, append: Append, future: Future[Appended]) -> None:
        try:
            appended = self.append(append)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(appended)

    def _enqueue(self, append: Append) -> tuple[Future[Appended], bool]:
        """Check the condition, queue the append, and return whether the background thread is going to write it."""
        since = self._stalled_since
        if since is not None and self._appender.monotonic() - since > MAX_STALL_S:
            raise Busy("the store is slow to answer; nothing was written")
        queued = _QueuedAppend(self._appender.precheck(append), self._appender.deadline(), Future())
        with self._queue_lock:
            self._queue.append(queued)
            return queued.future, self._is_draining

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
        # Only the holder of the lock takes appends from the queue. Those that are added meanwhile can wait.
        is_written, remaining = self._retried_group is None, len(self._queue)
        while is_written and remaining > 0:
            group = self._next_group()
            remaining -= len(group.queued)
            is_written = self._try_write(group)
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
            queued, self._queue = self._queue[:MAX_GROUP_SIZE], self._queue[MAX_GROUP_SIZE:]
        # The first append has the earliest deadline.
        return _Group(queued, self._appender.begin([entry.append for entry in queued], queued[0].deadline))

    def _try_write(self, group: _Group) -> bool:
        """Try once to write the group and return whether its futures are completed."""
        outcomes: list[Outcome] | list[BaseException] | None
        try:
            outcomes = self._appender.attempt(group.write)
        except BaseException as error:
            outcomes = [error] * len(group.queued)
        if outcomes is None:
            self._retried_group = group
            self._stalled_since = self._stalled_since or self._appender.monotonic()
            return False
        self._retried_group = self._stalled_since = None
        for entry, outcome in zip(group.queued, outcomes, strict=True):
            if isinstance(outcome, Appended):
                entry.future.set_result(outcome)
            else:
                entry.future.set_exception(outcome)
        for outcome in outcomes:
            if isinstance(outcome, Appended) and not outcome.replayed:
                self._on_commit(outcome.commit)
        return True
