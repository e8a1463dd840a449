"""Elements of a page: sections, charts with legends, tables and tiles."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from glue_jobs.page import formatting


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell: text, or a number aligned to the right. `is_bad` highlights it."""

    text: str
    title: str | None = None
    is_number: bool = False
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The first rows of a table; `more` rows are in the directory of `source`."""

    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    source: str
    folder: str
    more: int = 0
    is_half: bool = False
    """Narrow enough to share its row on the page."""

    @property
    def are_numbers(self) -> list[bool]:
        """Whether each column is aligned to the right."""
        return [cell.is_number for cell in self.rows[0]] if self.rows else [False] * len(self.titles)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its title, a one-sentence summary and a legend."""

    title: str
    note: str
    pictures: Sequence[Markup]
    """One picture, or a wide and a narrow one."""
    legend: Sequence[tuple[str, str]] = ()

    @property
    def is_wide(self) -> bool:
        """Whether the chart takes the whole width."""
        return len(self.pictures) > 1


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page. Without charts and tables, `gist` says what is missing."""

    anchor: str
    title: str
    gist: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure and its change since the previous period."""

    title: str
    value: str
    note: str = ""
    change: "Change | None" = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change: arrow, size, previous value, and whether it is good, bad or neutral."""

    arrow: str
    size: str
    before: str
    mood: str = ""


def named(value: object) -> Cell:
    """A name cell. The tooltip has the whole name if it is too long."""
    whole, short = formatting.name(value), formatting.shorten(value)
    return Cell(short, whole if whole != short else None)


def count(value: float | None, is_bad: bool = False) -> Cell:
    """A count cell. With `is_bad`, highlighted unless it is 0."""
    return Cell(formatting.number(value), is_number=True, is_bad=is_bad and bool(value))


def share(value: float | None) -> Cell:
    return Cell(formatting.share(value), is_number=True)


def durations(*values: float | None) -> Iterable[Cell]:
    """Duration cells. The tooltips have the seconds."""
    for value in values:
        yield Cell(formatting.duration(value), None if value is None else f"{value:,.3f} s", is_number=True)
