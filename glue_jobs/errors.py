"""What can be wrong with what the jobs read.

HistoryError
├── BrokenExport   a file is not what its manifest says, or not what an export holds
└── Conflict       two exports tell different things about the same commit
"""


class HistoryError(Exception):
    """The lake stays as it was; the message says what to look at."""


class BrokenExport(HistoryError):
    """A file of an export cannot be believed."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return BrokenExport, (self.file, self.reason)


class Conflict(HistoryError):
    """A commit is told twice, and not the same."""
