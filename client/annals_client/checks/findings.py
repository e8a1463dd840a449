"""Findings: what is wrong, and where."""

from collections.abc import Callable
from dataclasses import dataclass, field

LOG, OUTBOX, VIEWS = "annals.sqlite", "outbox.sqlite", "views.sqlite"

Show = Callable[[str], None]
"""Shows how far a check has come."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, as exactly as it is known where."""

    file: str
    problem: str
    log: int | None = None
    organization: str | None = None
    session: int | None = None
    page: int | None = None
    byte: int | None = None
    """Where in the file, or, if it is about a session, where in the body of its commit."""

    @property
    def words(self) -> str:
        """For people, on one line."""
        return f"{': '.join([self.file, *self._place()])}: {self.problem}"

    def _place(self) -> list[str]:
        log = None if self.log is None else name_of(self.log, self.organization)
        session = None if self.session is None else f"session {self.session}"
        page = None if self.page is None else f"page {self.page}"
        byte = None if self.byte is None else f"byte {self.byte}"
        place = ", ".join(part for part in (log, session, page, byte) if part)
        return [place] if place else []


@dataclass(slots=True)
class LogSeen:
    """What there is of a log."""

    log: int
    organization: str | None
    first: int = 0
    """Sessions."""
    last: int = 0
    end: int = 0
    """EventId of the last event."""
    commits: int = 0
    events: int = 0

    @property
    def words(self) -> str:
        """For people, on one line."""
        commits = f"{self.commits:,} commits, {self.events:,} events"
        return f"{name_of(self.log, self.organization)}: sessions {self.first} to {self.last}, {commits}"


@dataclass(slots=True)
class Report:
    """All that was found."""

    findings: list[Finding] = field(default_factory=list)
    logs: dict[int, LogSeen] = field(default_factory=dict)

    @property
    def damaged(self) -> list[str]:
        """The files that something is wrong with."""
        return list(dict.fromkeys(finding.file for finding in self.findings))

    @property
    def advice(self) -> list[str]:
        """What to do, a sentence each."""
        return [_ADVICE[file] for file in self.damaged]


_ADVICE = {
    LOG: (
        "Keep a copy of the data directory as it is. Stop the server, put annals.sqlite and outbox.sqlite of the same "
        "backup in their place, delete annals.sqlite-wal and outbox.sqlite-wal, and start it. Without a backup: it "
        "serves what can still be read, and `make export` saves that."
    ),
    OUTBOX: (
        "Of outbox.sqlite: stop the server, and put that of the backup in its place. If only the log has lost its end, "
        "start the server: observers go on from where the log ends."
    ),
    VIEWS: "Of views.sqlite: stop the server, delete it, and start the server; it is built anew from the log.",
}


def name_of(log: int, organization: str | None) -> str:
    """A log as people know it."""
    if log == 0:
        return "the directory (log 0)"
    kind = "" if log > 0 else "inbox of " if log % 2 else "observers of "
    return f"log {log}" if organization is None else f"{kind}{organization} (log {log})"
