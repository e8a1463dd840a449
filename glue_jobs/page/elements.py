"""What a page is made of: sections, charts with their legends, and tables of text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from glue_jobs.page import formatting


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a table: text, or a number, which stands to the right; some are alarming."""

    text: str
    title: str | None = None
    is_number: bool = False
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The first rows of something; `more` are in the directory of `source`."""

    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    source: str
    folder: str
    more: int = 0
    is_half: bool = False
    """There is room for another beside it."""

    @property
    def are_numbers(self) -> list[bool]:
        """Which columns stand to the right."""
        return [cell.is_number for cell in self.rows[0]] if self.rows else [False] * len(self.titles)


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its title, what it shows in a sentence, and what its colours mean."""

    title: str
    note: str
    pictures: Sequence[Markup]
    """One, or a wide one and a narrow one."""
    legend: Sequence[tuple[str, str]] = ()

    @property
    def is_wide(self) -> bool:
        """Tell whether it takes the whole width."""
        return len(self.pictures) > 1


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; without charts and tables its `gist` says what is missing."""

    anchor: str
    title: str
    gist: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that matters, and how it differs from the period before."""

    title: str
    value: str
    note: str = ""
    change: "Change | None" = None


@dataclass(frozen=True, slots=True)
class Change:
    """A difference: its arrow, its size, what was before, and whether that is good, bad or neither."""

    arrow: str
    size: str
    before: str
    mood: str = ""


def named(value: object) -> Cell:
    """A name; the whole of it is the tooltip if it is too long."""
    whole, short = formatting.name(value), formatting.cut(value)
    return Cell(short, whole if whole != short else None)


def count(value: float | None, is_bad: bool = False) -> Cell:
    """A number of things; alarming, if it may be, as soon as there is one."""
    return Cell(formatting.number(value), is_number=True, is_bad=is_bad and bool(value))


def share(value: float | None) -> Cell:
    """A ratio."""
    return Cell(formatting.share(value), is_number=True)


def durations(*values: float | None) -> Iterable[Cell]:
    """Durations; their seconds are the tooltip."""
    for value in values:
        yield Cell(formatting.duration(value), None if value is None else f"{value:,.3f} s", is_number=True)
