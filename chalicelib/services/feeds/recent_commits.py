"""The latest commits of logs that are followed, so that their readers need not read the log again.

Threads: not thread-safe. `CommitNotifier` calls it with its lock held.
"""

from collections import deque
from itertools import islice

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit

MAX_RECENT_COMMITS = 256
"""Commits kept per log."""
MAX_RECENT_BYTES = 1024 * 1024
"""Maximum total body size of the commits kept per log."""
MAX_TOTAL_RECENT_BYTES = 64 * 1024 * 1024
"""Maximum memory for the commits of all logs. Beyond it, those of the log written least recently are forgotten."""
COMMIT_BYTES = 1024
"""Memory of a commit without its body, roughly."""


class RecentCommits:
    """The end of each log that was written or followed, and the latest commits of some logs."""

    def __init__(self) -> None:
        self._logs: dict[int, _RecentCommitsOfLog] = {}
        self._sizes: dict[int, int] = {}
        """Memory used for the commits of each log. The log written least recently comes first."""
        self._total_size = 0

    def end(self, server: int) -> Head | None:
        """The last known position of a log."""
        log = self._logs.get(server)
        return None if log is None else log.end

    def add(self, commit: Commit) -> None:
        """Add a commit, which must follow the end of its log, and forget the oldest ones beyond the limits."""
        server = commit.server
        log = self._logs[server]
        log.add(commit)
        self._total_size -= self._sizes.pop(server, 0)
        self._sizes[server] = log.size_bytes
        self._total_size += log.size_bytes
        while self._total_size > MAX_TOTAL_RECENT_BYTES and len(self._sizes) > 1:
            oldest = self._logs[next(iter(self._sizes))]
            self.restart(oldest.end)

    def restart(self, end: Head) -> None:
        """Forget the commits of a log, which ends at `end` now."""
        self.forget(end.server)
        self._logs[end.server] = _RecentCommitsOfLog(end)

    def forget(self, server: int) -> None:
        """Forget the commits of a log and its end."""
        self._logs.pop(server, None)
        self._total_size -= self._sizes.pop(server, 0)

    def is_known_after(self, head: Head) -> bool:
        """Whether all commits between `head` and the end of its log are here."""
        log = self._logs.get(head.server)
        return log is not None and head.session >= log.start.session

    def after(self, head: Head) -> list[Commit] | None:
        """The commits after `head`. None if some of them are not here."""
        return self._logs[head.server].after(head) if self.is_known_after(head) else None


class _RecentCommitsOfLog:
    """The latest commits of a log after `start`, without gaps."""

    __slots__ = ("_body_bytes", "_commits", "end", "start")

    def __init__(self, start: Head) -> None:
        self.start = self.end = start
        self._commits: deque[Commit] = deque()
        self._body_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._body_bytes + COMMIT_BYTES * len(self._commits)

    def add(self, commit: Commit) -> None:
        commits = self._commits
        commits.append(Commit._make(commit))  # Its lazy properties would use several times the memory of the body.
        self.end = commit.head
        self._body_bytes += len(commit.body)
        while len(commits) > MAX_RECENT_COMMITS or (self._body_bytes > MAX_RECENT_BYTES and len(commits) > 1):
            evicted = commits.popleft()
            self._body_bytes -= len(evicted.body)
            self.start = evicted.head

    def after(self, head: Head) -> list[Commit]:
        """Copies of the commits after `head`, so that the lazy properties are freed with them."""
        return [Commit._make(commit) for commit in islice(self._commits, head.session - self.start.session, None)]
