"""Tables for the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """What a number has to reach: by itself, or as a multiple of another column's."""

    bound: float
    at_most: bool = False
    of: str = ""
    """The column whose number it is compared with."""
    column: str = ""
    """Whose number has to reach it; the first column's if none is named."""

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:g}{f' x {self.of}' if self.of else ''}"

    def is_reached(self, value: float) -> bool:
        """Whether `value`, or the ratio, is good enough."""
        return value <= self.bound if self.at_most else value >= self.bound

    def reached(self, value: float) -> str:
        """`ok`, or `short` of it."""
        return "ok" if self.is_reached(value) else "short"


def printed(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with the first column left, all others right."""
    lines = [heading, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    rule = "-+-".join("-" * width for width in widths)
    texts = [" | ".join(_padded(line, widths)).rstrip() for line in lines]
    return "\n".join([texts[0], rule, *texts[1:]])


def number(value: float) -> str:
    """Three digits that matter, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _padded(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = cells
    return [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
