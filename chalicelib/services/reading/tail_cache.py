"""What a process remembers of each log: the checkpoint of its views, and the commits after it.

Both stay true. A record that is read later is folded at least up to an earlier checkpoint of the same generation, and
commits never change. Each read still asks the log for newer commits.

Threads: any thread may call any method. `_lock` protects `_logs` and the entries in it, and is never held while reading
a store.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from chalicelib.domain.errors import CommitsDeleted, LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, verify_contiguous
from chalicelib.domain.views.record import PROJECTOR, Checkpoint
from chalicelib.services.clock import wall_clock
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.ports import Clock, Log, Views

CHECKPOINT_TTL_S = 60.0
"""Much shorter than `REPLACED_VIEWS_TTL_S` of the projector: views are not deleted while readers use them."""
MAX_TAIL_COMMITS = 64
"""With more commits than this after the checkpoint, or more than are cached, the next read loads it again."""
MAX_CACHED_COMMITS = 512
MAX_CACHED_CHARACTERS = 4_000_000
"""Limits of the cached commits of a log. A longer tail is read from the log."""
MAX_TOTAL_CHARACTERS = 8_000_000
MAX_CACHED_LOGS = 1_000
"""Limits of all logs together. Beyond them, the log whose checkpoint was loaded first is forgotten."""


@dataclass(slots=True)
class _CachedLog:
    checkpoint: Checkpoint
    expires_ms: int
    commits: list[Commit] = field(default_factory=list)
    """The commits after the checkpoint, without gaps."""
    characters: int = 0
    is_full: bool = False
    """Whether a commit was not cached because there is no room."""

    @property
    def end(self) -> Head:
        """The last known commit."""
        return self.commits[-1].head if self.commits else self.checkpoint.head

    def commits_after(self, head: Head) -> list[Commit] | None:
        """The known commits after `head`. None if `head` is not one of their positions."""
        index = head.session - self.checkpoint.head.session
        if not 0 <= index <= len(self.commits):
            return None
        known = self.commits[index - 1].last_event_id if index else self.checkpoint.head.last_event_id
        return self.commits[index:] if known == head.last_event_id else None

    def add(self, commit: Commit) -> int:
        """Add a commit if it is the next one and there is room. Returns by how much the cache has grown."""
        is_next = commit.session == self.end.session + 1 and commit.previous_event_id == self.end.last_event_id
        size = len(commit.body)
        if not is_next:
            return 0
        self.is_full = len(self.commits) == MAX_CACHED_COMMITS or self.characters + size > MAX_CACHED_CHARACTERS
        if self.is_full:
            return 0
        self.commits.append(commit)
        self.characters += size
        return size


class TailCache:
    """Caches the checkpoints of the views and the ends of the logs."""

    def __init__(
        self,
        log: Log,
        views: Views,
        checkpoint_ttl_s: float = CHECKPOINT_TTL_S,
        clock: Clock = wall_clock,
    ) -> None:
        self._log = log
        self._views = views
        self._checkpoint_ttl_s = checkpoint_ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._logs: dict[int, _CachedLog] = {}
        """By server, the one whose checkpoint was loaded first at the beginning."""
        self._characters = 0

    def checkpoint(self, server: int, min_session: int = 0) -> Checkpoint:
        """A checkpoint of the views, perhaps an earlier one, but not followed by many commits.

        It is also loaded again if it is before `min_session`.
        """
        with self._lock:
            cached = self._logs.get(server)
            is_short = cached is not None and not cached.is_full and len(cached.commits) <= MAX_TAIL_COMMITS
            if cached is not None and is_short and self._clock() < cached.expires_ms:
                checkpoint = cached.checkpoint
                if checkpoint.head.session >= min_session:
                    return checkpoint
        return self.reload_checkpoint(server)

    def reload_checkpoint(self, server: int) -> Checkpoint:
        """The current checkpoint of the views."""
        expires_ms = self._clock() + int(self._checkpoint_ttl_s * 1000)
        checkpoint = load_checkpoint(PROJECTOR, server, self._views)
        if not checkpoint.head.session:
            # Empty views start where the log does: retention may have deleted its beginning.
            checkpoint = checkpoint.at(self._log.start(server))
        with self._lock:
            cached = self._forget(server)
            commits = (cached.commits_after(checkpoint.head) if cached else None) or []
            size = sum(len(commit.body) for commit in commits)
            self._logs[server] = _CachedLog(checkpoint, expires_ms, commits, size)
            self._grow(size)
        return checkpoint

    def read(self, head: Head, limit: int | None = None) -> Iterator[Commit]:
        """The commits after `head`, in order, at most `limit`.

        Raises `LogBroken` if one is missing, or `CommitsDeleted` if retention has deleted it.
        """
        with self._lock:
            cached = self._logs.get(head.server)
            known = (cached.commits_after(head) if cached else None) or []
        if limit is not None:
            known = known[:limit]
            limit -= len(known)
        yield from known
        if limit == 0:
            return
        end = known[-1].head if known else head
        try:
            for commit in verify_contiguous(end, self._log.read(head.server, end.session, limit)):
                self._add(commit)
                yield commit
        except LogBroken as broken:
            # If an older copy of the log was restored, the cached commits are not part of it.
            with self._lock:
                self._forget(head.server)
            if self._log.start(head.server).session > end.session:
                raise CommitsDeleted(f"commits after session {end.session} are deleted") from broken
            raise

    def known_position(self, server: int, event_id: int) -> Head | None:
        """The last commit without an event after `event_id`. None if it is not cached."""
        with self._lock:
            cached = self._logs.get(server)
            if cached is None or not cached.checkpoint.head.last_event_id <= event_id <= cached.end.last_event_id:
                return None
            index = bisect_right(cached.commits, event_id, key=lambda commit: commit.last_event_id)
            return cached.commits[index - 1].head if index else cached.checkpoint.head

    def known_between(self, head: Head, end: Head) -> list[Commit] | None:
        """The commits after `head` and up to `end`. None if some are not cached."""
        with self._lock:
            cached = self._logs.get(head.server)
            commits = None if cached is None else cached.commits_after(head)
        if commits is None or len(commits) < end.session - head.session:
            return None
        commits = commits[: end.session - head.session]
        return commits if not commits or commits[-1].last_event_id == end.last_event_id else None

    def _add(self, commit: Commit) -> None:
        with self._lock:
            cached = self._logs.get(commit.server)
            if cached is not None:
                self._grow(cached.add(commit))

    def _grow(self, characters: int) -> None:
        self._characters += characters
        while self._characters > MAX_TOTAL_CHARACTERS or len(self._logs) > MAX_CACHED_LOGS:
            self._forget(next(iter(self._logs)))

    def _forget(self, server: int) -> _CachedLog | None:
        cached = self._logs.pop(server, None)
        self._characters -= cached.characters if cached else 0
        return cached
