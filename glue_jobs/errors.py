"""Errors in exports.

HistoryError
├── BrokenExport   a file does not match its manifest, or is not a valid export
└── Conflict       two exports have different content for the same commit
"""


class HistoryError(Exception):
    """Exports cannot be loaded. The lake is unchanged, and the message says what to check."""


class BrokenExport(HistoryError):
    """A file of an export is damaged or invalid."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return BrokenExport, (self.file, self.reason)


class Conflict(HistoryError):
    """Two versions of a commit differ."""
