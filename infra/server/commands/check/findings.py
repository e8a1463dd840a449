"""Findings of a check, and the report that collects them. The field names are the JSON output of `annals check`."""

from collections.abc import Callable
from dataclasses import dataclass, field

LOG, OUTBOX, VIEWS = "annals.sqlite", "outbox.sqlite", "views.sqlite"

ShowProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem and its location, as far as known. Its `str` is one line for people."""

    file: str
    problem: str
    log: int | None = None
    organization: str | None = None
    session: int | None = None
    page: int | None = None
    byte: int | None = None
    """Offset in the file, or in the body of the commit if there is a session."""

    def __str__(self) -> str:
        log = None if self.log is None else log_name(self.log, self.organization)
        session = None if self.session is None else f"session {self.session}"
        page = None if self.page is None else f"page {self.page}"
        byte = None if self.byte is None else f"byte {self.byte}"
        location = ", ".join(part for part in (log, session, page, byte) if part)
        return ": ".join(part for part in (self.file, location, self.problem) if part)


@dataclass(slots=True)
class LogSummary:
    """Extent of a log. Its `str` is one line for people."""

    log: int
    organization: str | None
    first: int = 0
    """First session."""
    last: int = 0
    """Last session."""
    end: int = 0
    """EventId of the last event."""
    commits: int = 0
    events: int = 0
    position: int = 0
    """Position of the last event."""

    def __str__(self) -> str:
        counts = f"{self.commits:,} commits, {self.events:,} events"
        return f"{log_name(self.log, self.organization)}: sessions {self.first} to {self.last}, {counts}"


@dataclass(slots=True)
class Report:
    """All findings, and a summary of each log by its number."""

    findings: list[Finding] = field(default_factory=list)
    logs: dict[int, LogSummary] = field(default_factory=dict)

    @property
    def damaged_files(self) -> list[str]:
        return list(dict.fromkeys(finding.file for finding in self.findings))

    @property
    def advice(self) -> list[str]:
        """What to do, one entry per damaged file."""
        return [_ADVICE[file] for file in self.damaged_files]


_ADVICE = {
    LOG: (
        "annals.sqlite: keep a copy of the data directory. Stop the server, replace annals.sqlite and outbox.sqlite by "
        "those of one backup, delete annals.sqlite-wal and outbox.sqlite-wal, and start the server. Without a backup, "
        "the server serves the commits that can still be read, and `make export` saves them."
    ),
    OUTBOX: (
        "outbox.sqlite: stop the server and replace the file by that of the backup. If only the end of the log is "
        "missing, start the server: observers continue from the end of the log."
    ),
    VIEWS: "views.sqlite: stop the server, delete the file, and start the server. It is rebuilt from the log.",
}


def log_name(log: int, organization: str | None) -> str:
    if log == 0:
        return "the directory (log 0)"
    kind = "" if log > 0 else "inbox of " if log % 2 else "observers of "
    return f"log {log}" if organization is None else f"{kind}{organization} (log {log})"
