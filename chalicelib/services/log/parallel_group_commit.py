"""Group commit for a store where each write takes milliseconds and contains one log: DynamoDB.

Each log has a queue. The appends that wait while a group of their log is written become the next group, which is one
run of commits in one item. Logs are written in parallel, each by one thread at a time.

Threads: any thread may call `submit`, `append` and `flush`. The pool `annals-writer` writes one group of one log per
task, once. If the log has more groups, or the group has to be tried again, another task is queued behind those of the
other logs. So a slow log does not block them as long as a thread is free. The threads `annals-condition` check the
conditions of submitted appends, because that may read a long log. They do not wait for writes.
Locks: `_lock` protects `_queues`, `_unstarted` and `_check_counts`. Each queue has its own. They are never held
together.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from chalicelib.domain.errors import Busy
from chalicelib.domain.log.append import MAX_BYTES, Append
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.log.outcome import Outcome, SubmittedAppend
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.group_queue import GroupQueue

WRITER_THREADS = 64
CONDITION_THREADS = 64
MAX_CHECKS_PER_LOG = 512
"""Submitted appends of one log whose conditions are not checked yet. More are refused."""
MAX_GROUP_BYTES = MAX_BYTES
"""A group is one item. It may be as large as the largest request."""

_log = logging.getLogger("annals")


class ParallelGroupCommit:
    """Queues the appends of one process by log and writes the logs in parallel. It has the interface of `GroupCommit`.

    `on_commit` is called by the threads of the pool. The commits of one log are reported in order.
    """

    def __init__(
        self, appender: Appender, on_commit: Callable[[Commit], None], writer_threads: int = WRITER_THREADS
    ) -> None:
        self._appender = appender
        self._on_commit = on_commit
        self._lock = threading.Lock()
        self._queues: dict[int, GroupQueue] = {}
        self._unstarted: set[int] = set()
        """The logs with appends since the last `flush`."""
        self._check_counts: Counter[int] = Counter()
        """The number of submitted appends of each log whose conditions are not checked yet."""
        self._writers = ThreadPoolExecutor(writer_threads, "annals-writer")
        self._conditions = ThreadPoolExecutor(CONDITION_THREADS, "annals-condition")

    def submit(self, append: Append) -> SubmittedAppend:
        """Queue an append. The caller must call `flush` afterwards.

        An append with a condition is checked by another thread first: it may be queued after `flush`.
        Raises `Busy` if the log is stalled, or if too many appends wait for the check of their conditions.
        """
        if append.condition is not None:
            return self._submit_check(append)
        submitted, _ = self._queue(append.server).enqueue(append)
        with self._lock:
            self._unstarted.add(append.server)
        return submitted

    def append(self, append: Append) -> Appended:
        """Write one append and wait for its outcome. Raises the reason if it is refused."""
        queue = self._queue(append.server)
        submitted, _ = queue.enqueue(self._appender.precheck(append))
        self._start(queue)
        return submitted.result()

    def flush(self, max_wait_s: float) -> bool:
        """Start to write the queued appends. Returns False: use `Future.add_done_callback` to wait for them."""
        del max_wait_s
        with self._lock:
            queues = [self._queues[server] for server in self._unstarted]
            self._unstarted.clear()
        for queue in queues:
            self._start(queue)
        return False

    def _submit_check(self, append: Append) -> SubmittedAppend:
        with self._lock:
            if self._check_counts[append.server] >= MAX_CHECKS_PER_LOG:
                raise Busy("too many concurrent requests with conditions; nothing was written")
            self._check_counts[append.server] += 1
        outcome: Future[Sequence[Outcome]] = Future()
        self._conditions.submit(self._check, append, self._appender.condition_deadline(), outcome)
        return SubmittedAppend(outcome, 0)

    def _check(self, append: Append, deadline: float, outcome: "Future[Sequence[Outcome]]") -> None:
        """Check the condition, queue the append, and complete `outcome` when it is written."""
        queue = self._queue(append.server)
        try:
            submitted, _ = queue.enqueue(self._appender.precheck(append, deadline))
        except BaseException as error:
            outcome.set_exception(error)
            return
        finally:
            with self._lock:
                self._check_counts[append.server] -= 1
        submitted.group.add_done_callback(lambda _: _complete(outcome, submitted))
        self._start(queue)

    def _queue(self, server: int) -> GroupQueue:
        with self._lock:
            queue = self._queues.get(server)
            if queue is None:
                queue = self._queues[server] = GroupQueue(self._appender, self._on_commit, MAX_GROUP_BYTES)
            return queue

    def _start(self, queue: GroupQueue) -> None:
        if queue.claim():
            self._writers.submit(self._write_group, queue)

    def _write_group(self, queue: GroupQueue) -> None:
        try:
            group = queue.next_group()
            if not queue.try_write(group):
                self._appender.pause(group.write)
        except Exception:  # `on_commit` failed. The futures of the group are completed.
            _log.exception("unexpected error in a writer thread")
        if not queue.release():
            self._writers.submit(self._write_group, queue)


def _complete(outcome: "Future[Sequence[Outcome]]", submitted: SubmittedAppend) -> None:
    """Complete `outcome` with that of an append whose group is finished."""
    error = submitted.group.exception()
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result([submitted.group.result()[submitted.place]])
