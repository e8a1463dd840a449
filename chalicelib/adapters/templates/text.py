"""Text from elsewhere, made fit for one line."""

import unicodedata

LONGEST_REASON = 200
"""As much of what a server says as an operator wants to read."""

_BREAKING = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode's categories of what is no character to read, or begins a new line."""


def one_line(text: str, longest: int) -> str:
    """`text` without control characters, which become spaces; runs of spaces are one; cut with "…" if too long."""
    readable = "".join(" " if unicodedata.category(character) in _BREAKING else character for character in text)
    line = " ".join(readable.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def said(text: str | bytes) -> str:
    """What a server said, short enough for the reason of a failure."""
    return one_line(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, LONGEST_REASON)
