"""Object summaries: the entries of object lists, the same for all vocabularies."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Result = Literal["success", "failure", "timeout"]

MAX_TEXT_LENGTH = 200
"""Publishers choose the texts of states and labels, so lists truncate them."""

_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*%", re.ASCII)
_FRACTION = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})", re.ASCII)
_RATIO = re.compile(r"[01](?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ObjectSummary:
    """An object in a list. None: unknown or not applicable."""

    path: str
    key: str | None
    """The key of the object's events."""
    state: str
    label: str
    result: Result | None = None
    created_at: str | None = None
    updated_at: str | None = None
    progress: float | None = None
    """From 0 to 1, while the object is active."""
    parent: str | None = None
    """The key of the object that this one is part of."""
    type: str | None = None
    node: str | None = None
    author: str | None = None

    def contains_text(self, text: str) -> bool:
        """Whether the path or the label contains `text`, ignoring case."""
        return text.casefold() in f"{self.path} {self.label}".casefold()

    @property
    def json(self) -> Mapping[str, Any]:
        return {
            "path": self.path,
            "key": self.key,
            "state": self.state,
            "result": self.result,
            "label": self.label,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "progress": self.progress,
            "parent": self.parent,
        }


def truncate(text: str | None, max_length: int = MAX_TEXT_LENGTH) -> str:
    """The beginning of a text. None means that the text was too large to be stored."""
    if text is None:
        return "…"
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def parse_progress(progress: str | None) -> float | None:
    """0.66 for `66%`, 0.5 for `1/2` and `0.5`, None for any other text."""
    text = (progress or "").strip()
    if match := _PERCENT.fullmatch(text):
        part, whole = float(match[1]), 100.0
    elif match := _FRACTION.fullmatch(text):
        part, whole = float(match[1]), float(match[2])
    elif _RATIO.fullmatch(text):
        part, whole = float(text), 1.0
    else:
        return None
    return min(part / whole, 1.0) if whole else None
