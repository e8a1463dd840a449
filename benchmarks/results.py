"""What was measured: rows of numbers with their goals, kept as JSON, so that parts can be measured by themselves."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import table
from benchmarks.table import Goal

RESULTS = Path("build") / "bench" / "results.json"
QUICK_RESULTS = RESULTS.with_name("quick.json")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal, and how far one came."""

    goal: Goal
    found: float

    @property
    def is_reached(self) -> bool:
        """Whether that is far enough."""
        return self.goal.is_reached(self.found)

    def __str__(self) -> str:
        return f"{table.number(self.found)} ({self.goal}) {self.goal.reached(self.found)}"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was measured: a number for each peer, or for each percentile."""

    name: str
    unit: str
    values: dict[str, float]
    goals: tuple[Goal, ...] = ()
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The least and the greatest of all rounds, of which `values` has the medians."""

    @property
    def verdicts(self) -> list[Verdict]:
        """How far one came with each goal; a goal that compares with what was not measured is left out."""
        first = next(iter(self.values))
        found = [(goal, self.values.get(goal.column or first), self.values.get(goal.of, 1.0)) for goal in self.goals]
        return [
            Verdict(goal, own / other)
            for goal, own, other in found
            if own is not None and (not goal.of or goal.of in self.values)
        ]

    @property
    def title(self) -> str:
        """Its name with the unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that belong together."""

    title: str
    rows: tuple[Row, ...]

    @property
    def columns(self) -> list[str]:
        """All columns that a row has, in order of appearance."""
        return list(dict.fromkeys(column for row in self.rows for column in row.values))

    def row(self, name: str) -> Row:
        """The row with that name."""
        return next(row for row in self.rows if row.name == name)

    def __str__(self) -> str:
        cells = [
            [row.title, *(_cell(row, column) for column in self.columns), "; ".join(map(str, row.verdicts))]
            for row in self.rows
        ]
        return table.printed((self.title, *self.columns, "goals"), cells)


@dataclass(frozen=True, slots=True)
class Measured:
    """A part of the benchmarks, measured in one go; if it depends on how long the log is, for one length."""

    part: str
    size: int
    """How many events the log had; 0 if that is of no matter."""
    facts: dict[str, Any]
    """When, on which machine, and how loaded that was."""
    tables: tuple[Table, ...]


class Results:
    """All that was measured, the latest of each part and size."""

    def __init__(self, measured: Iterable[Measured] = ()) -> None:
        self._measured = {(one.part, one.size): one for one in measured}

    def __iter__(self) -> Iterator[Measured]:
        return iter(self._measured.values())

    def add(self, measured: Measured) -> None:
        """Take the place of what was measured of this part and size before."""
        self._measured[measured.part, measured.size] = measured

    def of(self, part: str) -> list[Measured]:
        """That part at all sizes, the smallest first."""
        return sorted((one for one in self if one.part == part), key=lambda one: one.size)

    def save(self, path: Path) -> None:
        """Keep all of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(one) for one in self], indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Results":
        """What was kept; nothing if nothing was."""
        return cls(map(_measured, json.loads(path.read_text()))) if path.exists() else cls()


def _cell(row: Row, column: str) -> str:
    return table.number(row.values[column]) if column in row.values else ""


def _measured(stored: dict[str, Any]) -> Measured:
    tables = tuple(Table(one["title"], _rows(one["rows"])) for one in stored["tables"])
    return Measured(stored["part"], stored["size"], stored["facts"], tables)


def _rows(stored: Sequence[dict[str, Any]]) -> tuple[Row, ...]:
    return tuple(
        Row(
            one["name"],
            one["unit"],
            one["values"],
            tuple(Goal(**goal) for goal in one["goals"]),
            {column: (least, greatest) for column, (least, greatest) in one["spread"].items()},
        )
        for one in stored
    )
