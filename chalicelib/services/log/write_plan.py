"""Write plans: the commits to write for a group of append requests, and the progress of writing them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.log.outcome import Outcome


@dataclass(slots=True)
class WritePlan:
    """Commits to write in one transaction, and the outcome of each request once they are written."""

    now_ms: int
    commits: list[Commit] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    base_heads: dict[int, Head] = field(default_factory=dict)
    """Heads of the logs before the write."""
    new_heads: dict[int, Head] = field(default_factory=dict)
    """Heads of the logs after the write."""
    receipts: dict[int, Mapping[str, Receipt]] = field(default_factory=dict)
    """By server, the receipts of all idempotency keys of the group, looked up after the base head was read."""
    tails: dict[int, list[Commit]] = field(default_factory=dict)
    """By server, the last commits of the log, for the conditions of the group."""

    def commits_of(self, server: int) -> Iterator[Commit]:
        """The planned commits of one log, in order."""
        return (commit for commit in self.commits if commit.server == server)

    def commit_with_key(self, server: int, key: str) -> Commit | None:
        """The planned commit with an idempotency key."""
        return next((commit for commit in self.commits_of(server) if commit.idempotency_key == key), None)


@dataclass(slots=True)
class GroupWrite:
    """A group of append requests that is being written, perhaps in several attempts."""

    appends: list[Append]
    """The group may grow until the first attempt."""
    deadline: float
    """Monotonic time after which no further attempt is made."""
    started_s: float
    backoff_step: int
    """Backoff step after the next conflict."""
    unanswered_attempts: int = 0
    """Number of attempts with the current plan that the store did not answer."""
    pause_s: float = 0.0
    """Pause before the next attempt."""
    plan: WritePlan | None = None
    may_be_written: bool = False
    """Whether an unanswered attempt may have written the plan. If so, only the same plan may be tried again."""
