"""A queue of appends that are written in groups.

Threads: any thread may call `enqueue`, `claim` and `release`. The caller ensures that only one thread at a time calls
`next_group` and `try_write`.
Locks: `_lock` protects `_groups` and `_is_claimed`, and is never held while writing.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from chalicelib.domain.errors import Busy
from chalicelib.domain.log.append import Append, stored_size
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.log.outcome import Outcome, SubmittedAppend
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.write_plan import GroupWrite

MAX_GROUP_SIZE = 256
MAX_STALL_S = 1.0
"""New appends are refused once the store has not answered for this long."""


@dataclass(slots=True)
class Group:
    """Appends that are written together. More are added while the group is in the queue."""

    write: GroupWrite
    future: Future[Sequence[Outcome]] = field(default_factory=Future)
    size_bytes: int = 0
    """Only counted if groups have a maximum size."""


class GroupQueue:
    """The groups that wait to be written, in the order of submission."""

    def __init__(
        self, appender: Appender, on_commit: Callable[[Commit], None], max_group_bytes: int | None = None
    ) -> None:
        self._appender = appender
        self._on_commit = on_commit
        self._max_group_bytes = max_group_bytes
        self._lock = threading.Lock()
        self._groups: deque[Group] = deque()
        """New appends are added to the last group."""
        self._retried_group: Group | None = None
        """The group whose last attempt failed, by a conflict or without an answer. It is written before any other."""
        self._stalled_since: float | None = None
        self._is_claimed = False

    def __len__(self) -> int:
        """Number of groups to write."""
        return len(self._groups) + (self._retried_group is not None)

    @property
    def has_retried_group(self) -> bool:
        return self._retried_group is not None

    def enqueue(self, append: Append) -> tuple[SubmittedAppend, bool]:
        """Queue the append, and return whether a background thread is going to write it.

        Raises `Busy` if the store has not answered for `MAX_STALL_S`.
        """
        since = self._stalled_since
        if since is not None and self._appender.monotonic() - since > MAX_STALL_S:
            raise Busy("the store is slow to answer; nothing was written")
        size_bytes = 0 if self._max_group_bytes is None else stored_size(append)
        with self._lock:
            if not self._groups or not self._has_room(self._groups[-1], size_bytes):
                # The first append of a group has the earliest deadline.
                self._groups.append(Group(self._appender.begin([], self._appender.deadline())))
            group = self._groups[-1]
            group.write.appends.append(append)
            group.size_bytes += size_bytes
            return SubmittedAppend(group.future, len(group.write.appends) - 1), self._is_claimed

    def claim(self) -> bool:
        """Whether the caller has to start a background thread, which then calls `release` until that returns True."""
        with self._lock:
            if self._is_claimed or not len(self):
                return False
            self._is_claimed = True
            return True

    def release(self) -> bool:
        """Whether everything is written, so that the background thread may end."""
        with self._lock:
            self._is_claimed = len(self) > 0
            return not self._is_claimed

    def next_group(self) -> Group:
        """The group to write now. There must be one."""
        if self._retried_group is not None:
            return self._retried_group
        with self._lock:
            return self._groups.popleft()

    def try_write(self, group: Group) -> bool:
        """Try once to write the group and return whether its future is completed."""
        try:
            outcomes = self._appender.attempt(group.write)
        except BaseException as error:
            self._retried_group = self._stalled_since = None
            group.future.set_exception(error)
            return True
        if outcomes is None:
            self._retried_group = group
            # After a conflict the next attempt has better chances. A store that does not answer may stay that way.
            is_unanswered = group.write.unanswered_attempts > 0
            self._stalled_since = (self._stalled_since or self._appender.monotonic()) if is_unanswered else None
            return False
        self._retried_group = self._stalled_since = None
        group.future.set_result(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, Appended) and not outcome.replayed:
                self._on_commit(outcome.commit)
        return True

    def _has_room(self, group: Group, size_bytes: int) -> bool:
        if len(group.write.appends) >= MAX_GROUP_SIZE:
            return False
        return self._max_group_bytes is None or group.size_bytes + size_bytes <= self._max_group_bytes
