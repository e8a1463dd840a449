"""Turns text from other systems into a single safe line."""

import unicodedata

MAX_REASON_CHARS = 200
"""Maximum length of another server's answer in an error message."""

_CONTROL_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode categories of control characters, surrogates and line separators."""
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of the text after them, so that a line may look like another one."""


def one_line(text: str, max_chars: int) -> str:
    """Replace control characters by spaces, collapse spaces, and truncate with "…"."""
    readable = "".join(" " if _is_control(char) else char for char in text)
    line = " ".join(readable.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in _CONTROL_CATEGORIES or char in _DIRECTIONS


def shorten_reason(text: str | bytes) -> str:
    """Another server's answer, in one line and short enough for an error message."""
    return one_line(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, MAX_REASON_CHARS)
