"""Tables for the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for a number, absolute or as a multiple of another column."""

    bound: float
    at_most: bool = False
    of: str = ""
    """The column to compare with. Empty: the bound is absolute."""
    column: str = ""
    """The column that must reach the bound. Empty: the first column."""

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:g}{f' x {self.of}' if self.of else ''}"

    def is_reached(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound

    def verdict(self, value: float) -> str:
        return "ok" if self.is_reached(value) else "short"


def format_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table with the first column aligned left and the others right."""
    lines = [heading, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    rule = "-+-".join("-" * width for width in widths)
    texts = [" | ".join(_pad(line, widths)).rstrip() for line in lines]
    return "\n".join([texts[0], rule, *texts[1:]])


def format_number(value: float) -> str:
    """Format with three significant digits and thousands separators."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _pad(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = cells
    return [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
