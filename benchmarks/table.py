"""Tables for the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """What a number has to reach."""

    bound: float
    at_most: bool = False

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:g}"

    def reached(self, value: float) -> str:
        """`ok`, or `short` of it."""
        return "ok" if (value <= self.bound if self.at_most else value >= self.bound) else "short"


def printed(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with the first column left, all others right."""
    lines = [heading, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    rule = "-+-".join("-" * width for width in widths)
    texts = [" | ".join(_padded(line, widths)) for line in lines]
    return "\n".join([texts[0], rule, *texts[1:]])


def number(value: float) -> str:
    """Three digits that matter, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _padded(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = cells
    return [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
