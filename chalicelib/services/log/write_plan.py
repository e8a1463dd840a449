"""Writing: what is to be written for a group of requests, and how far that has come."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from chalicelib.domain.errors import Busy, Refused
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, Receipt
from chalicelib.domain.log.commit import Appended, Commit

Outcome = Appended | Refused | Busy


@dataclass(slots=True)
class Plan:
    """What to write for a group of requests, and what to answer each once it is written."""

    now_ms: int
    commits: list[Commit] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    stored: dict[int, Head] = field(default_factory=dict)
    """The heads that the plan builds on."""
    heads: dict[int, Head] = field(default_factory=dict)
    """The heads once it is written."""

    def of_server(self, server: int) -> Iterator[Commit]:
        """The commits for one log, in order."""
        return (commit for commit in self.commits if commit.server == server)

    def receipt(self, server: int, key: str) -> Receipt | None:
        """What an idempotency key is used for in this very plan."""
        return next((r for r in self.receipts if (r.server, r.key) == (server, key)), None)


@dataclass(slots=True)
class Writing:
    """A group of requests on its way into the log."""

    appends: Sequence[Append]
    deadline: float
    """When it is tried for the last time."""
    began_s: float
    step: int
    """How long the next pause may be, should another be first again."""
    silences: int = 0
    """How often the store gave no answer to the plan."""
    pause_s: float = 0.0
    """How long to wait before the next try."""
    plan: Plan | None = None
    is_unknown: bool = False
    """Whether the plan may be written already: then only the very same may be tried again."""
