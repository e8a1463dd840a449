"""Benchmark results: tables of numbers with goals, stored as JSON so that parts can be measured separately."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import table
from benchmarks.report.table import Goal

RESULTS = Path("build") / "bench" / "results.json"
QUICK_RESULTS = RESULTS.with_name("quick.json")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal and the value that was measured for it."""

    goal: Goal
    value: float

    @property
    def is_reached(self) -> bool:
        return self.goal.is_reached(self.value)

    def __str__(self) -> str:
        return f"{table.format_number(self.value)} ({self.goal}) {self.goal.verdict(self.value)}"


@dataclass(frozen=True, slots=True)
class Row:
    """One measured metric: a number per peer, or per percentile."""

    name: str
    unit: str
    values: dict[str, float]
    goals: tuple[Goal, ...] = ()
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Minimum and maximum over all rounds; `values` has the medians."""

    @property
    def verdicts(self) -> list[Verdict]:
        """One verdict per goal. Goals that refer to a missing column are left out."""
        first = next(iter(self.values))
        values = [(goal, self.values.get(goal.column or first), self.values.get(goal.of, 1.0)) for goal in self.goals]
        return [
            Verdict(goal, value / reference)
            for goal, value, reference in values
            if value is not None and (not goal.of or goal.of in self.values)
        ]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.unit}" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class Table:
    """A titled group of rows."""

    title: str
    rows: tuple[Row, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of all rows, in order of appearance."""
        return list(dict.fromkeys(column for row in self.rows for column in row.values))

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def __str__(self) -> str:
        cells = [
            [row.title, *(_format_cell(row, column) for column in self.columns), "; ".join(map(str, row.verdicts))]
            for row in self.rows
        ]
        return table.format_table((self.title, *self.columns, "goals"), cells)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One part of the benchmarks, measured at one log size."""

    part: str
    size: int
    """Number of events in the log. 0: the part does not depend on it."""
    facts: dict[str, Any]
    """Time, machine, and load average before the measurement."""
    tables: tuple[Table, ...]


class Results:
    """The latest measurement of each part and size."""

    def __init__(self, measurements: Iterable[Measurement] = ()) -> None:
        self._measurements = {(entry.part, entry.size): entry for entry in measurements}

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self._measurements.values())

    def add(self, measurement: Measurement) -> None:
        """Add a measurement, replacing an earlier one of the same part and size."""
        self._measurements[measurement.part, measurement.size] = measurement

    def for_part(self, part: str) -> list[Measurement]:
        """The measurements of a part, smallest size first."""
        return sorted((entry for entry in self if entry.part == part), key=lambda entry: entry.size)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(entry) for entry in self], indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read stored results. A missing file means no results."""
        return cls(map(_parse_measurement, json.loads(path.read_text()))) if path.exists() else cls()


def _format_cell(row: Row, column: str) -> str:
    return table.format_number(row.values[column]) if column in row.values else ""


def _parse_measurement(stored: dict[str, Any]) -> Measurement:
    tables = tuple(Table(entry["title"], _parse_rows(entry["rows"])) for entry in stored["tables"])
    return Measurement(stored["part"], stored["size"], stored["facts"], tables)


def _parse_rows(stored: Sequence[dict[str, Any]]) -> tuple[Row, ...]:
    return tuple(
        Row(
            row["name"],
            row["unit"],
            row["values"],
            tuple(Goal(**goal) for goal in row["goals"]),
            {column: (least, greatest) for column, (least, greatest) in row["spread"].items()},
        )
        for row in stored
    )
