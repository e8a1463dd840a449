"""Briefs: what a list shows of an object, the same for all vocabularies."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Result = Literal["success", "failure"]

LONGEST_TEXT = 200
"""States and labels are texts of publishers; a list shows their beginnings."""

_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*%", re.ASCII)
_PART = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})", re.ASCII)
_SHARE = re.compile(r"[01](?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Brief:
    """An object in a list. What is None is not known, or there is no such thing."""

    path: str
    key: str | None
    """Of its own events."""
    state: str
    label: str
    result: Result | None = None
    created_at: str | None = None
    updated_at: str | None = None
    progress: float | None = None
    """From 0 to 1, while it goes on."""
    parent: str | None = None
    """The key of what it is part of."""

    def is_found_by(self, text: str) -> bool:
        """Tell whether its path or its label holds `text`, in capitals or not."""
        return text.casefold() in f"{self.path} {self.label}".casefold()

    @property
    def json(self) -> Mapping[str, Any]:
        """As lists show it."""
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


def short(text: str | None) -> str:
    """The beginning of a text; None was too large even to be kept."""
    if text is None:
        return "…"
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def share(progress: str | None) -> float | None:
    """0.66 of `66%`, 0.5 of `1/2` and of `0.5`; None of what only people understand."""
    text = (progress or "").strip()
    if found := _PERCENT.fullmatch(text):
        part, whole = float(found[1]), 100.0
    elif found := _PART.fullmatch(text):
        part, whole = float(found[1]), float(found[2])
    elif _SHARE.fullmatch(text):
        part, whole = float(text), 1.0
    else:
        return None
    return min(part / whole, 1.0) if whole else None
