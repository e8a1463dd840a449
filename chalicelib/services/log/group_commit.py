"""Group commit on one machine: appends that are queued together share one write and one fsync.

Each append has a session of its own. A group may contain appends to several logs.

Threads: any thread may call `submit`, `append` and `flush`. The thread that holds `_flush_lock` writes. Appends that it
leaves in the queue, and groups that the store did not accept at once, are written by the background thread
`annals-writer`. While that thread is at work, `append` leaves the writing to it, so that groups are large. The threads
`annals-condition` check the conditions of submitted appends, because that may read a long log.
Locks: `_flush_lock` is held while a group is written. The queue has its own. Order: `_flush_lock`, then that of the
queue.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.log.outcome import SubmittedAppend
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.group_queue import GroupQueue

CONDITION_THREADS = 8

_log = logging.getLogger("annals")


class GroupCommit:
    """Queues the appends of one process and writes them in groups, in the order of submission."""

    def __init__(self, appender: Appender, on_commit: Callable[[Commit], None]) -> None:
        self._appender = appender
        self._queue = GroupQueue(appender, on_commit)
        self._flush_lock = threading.Lock()
        self._background = ThreadPoolExecutor(1, "annals-writer")
        self._conditions = ThreadPoolExecutor(CONDITION_THREADS, "annals-condition")

    def submit(self, append: Append) -> SubmittedAppend:
        """Queue an append without waiting for the disk. The caller must call `flush` afterwards.

        An append with a condition is checked and written by another thread: it may be finished after `flush`.
        Raises `Busy` if the store is stalled.
        """
        if append.condition is None:
            return self._queue.enqueue(append)[0]
        deadline = self._appender.condition_deadline()
        return SubmittedAppend(self._conditions.submit(lambda: [self._append(append, deadline)]), 0)

    def append(self, append: Append) -> Appended:
        """Write one append and wait for its outcome. Raises the reason if it is refused."""
        return self._append(append, self._appender.condition_deadline())

    def _append(self, append: Append, deadline: float) -> Appended:
        submitted, is_claimed = self._queue.enqueue(self._appender.precheck(append, deadline))
        if not is_claimed:
            self.flush(max_wait_s=0.0)
        return submitted.result()

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
            if self._queue.claim():
                self._background.submit(self._drain)
        return is_flushed

    def _write_queue(self) -> bool:
        """Try once to write all queued appends. The caller holds `_flush_lock`."""
        # Only the holder of the lock takes groups from the queue. Those that are added meanwhile can wait.
        is_written, remaining = not self._queue.has_retried_group, len(self._queue)
        while is_written and remaining > 0:
            remaining -= 1
            is_written = self._queue.try_write(self._queue.next_group())
        return is_written

    def _drain(self) -> None:
        while True:
            try:
                with self._flush_lock:
                    self._write_next_group()
            except (
                Exception
            ):  # `on_commit` failed. The futures of the group are completed; write the other appends too.
                _log.exception("unexpected error in the background writer")
            if self._queue.release():
                return

    def _write_next_group(self) -> None:
        """Write one group, with retries until its deadline. The caller holds `_flush_lock`."""
        if not len(self._queue):
            return
        group = self._queue.next_group()
        while not self._queue.try_write(group):
            self._appender.pause(group.write)
