"""Group commit: an append that is queued just when the background thread ends is written all the same."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from chalicelib.adapters.sqlite.database import Database
from chalicelib.domain.log.commit import Appended
from chalicelib.services.log.group_commit import GroupCommit
from tests.services.fakes import FailingLog, World, append
from tests.services.log.test_group_commit import (
    TIMEOUT_S,
    DaemonThreads,
    GatedLog,
    ignore_commit,
    wait_for_queue,
)


class HookedLock:
    """A lock that calls `hook` once, before a thread whose name begins with `thread_name` acquires it."""

    def __init__(self, thread_name: str, hook: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._thread_name = thread_name
        self._hook = hook
        self._was_hooked = False

    def __enter__(self) -> None:
        if not self._was_hooked and threading.current_thread().name.startswith(self._thread_name):
            self._was_hooked = True
            self._hook()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def use_lock(group_commit: GroupCommit, lock: HookedLock) -> None:
    vars(group_commit._queue)["_lock"] = lock


def test_append_before_background_thread_ends_is_written(database: Database, world: World) -> None:
    """The background thread has written its group, and an append that relies on it is queued."""
    group_commit = GroupCommit(world.appender(FailingLog(database, 1, writes=False)), ignore_commit)
    late: list[Future[Appended]] = []
    is_queued = threading.Event()
    with DaemonThreads() as pool:

        def queue_late_append() -> None:
            late.append(pool.submit(group_commit.append, append(request_id="late")))
            wait_for_queue(group_commit, 1)
            is_queued.set()

        use_lock(group_commit, HookedLock("annals-writer", queue_late_append))
        first = group_commit.submit(append(request_id="first"))
        assert not group_commit.flush(max_wait_s=0.0)
        assert first.result(TIMEOUT_S).commit.session == 1
        assert is_queued.wait(TIMEOUT_S)
        assert late[0].result(TIMEOUT_S).commit.session == 2


def test_append_after_background_thread_ended_is_written(database: Database, world: World) -> None:
    """The background thread ends while the append waits for the lock of the queue."""
    log = GatedLog(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)

    def end_background_thread() -> None:
        log.open(3)
        queued.result(TIMEOUT_S)
        group_commit._background.submit(bool).result(TIMEOUT_S)  # It has one thread, so `_drain` has returned.

    with DaemonThreads() as pool:
        slow = pool.submit(group_commit.append, append(request_id="slow"))
        log.await_writer()
        queued = group_commit.submit(append(request_id="queued"))
        assert not group_commit.flush(max_wait_s=0.0)
        use_lock(group_commit, HookedLock(threading.current_thread().name, end_background_thread))
        # In this thread, because a thread that waits for a lost append never ends.
        future, is_claimed = group_commit._queue.enqueue(append(request_id="late"))
        assert not is_claimed
        assert group_commit.flush(max_wait_s=TIMEOUT_S)
        assert [one.result(TIMEOUT_S).commit.session for one in (slow, queued, future)] == [1, 2, 3]
