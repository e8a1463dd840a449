"""docs/performance.md and its charts, from what was measured: `python -m benchmarks.document`.

The words are those of `performance.md.j2`; every number is one of the results.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks import charts
from benchmarks.charts import Panel
from benchmarks.results import QUICK_RESULTS, RESULTS, Measured, Results, Row, Table, Verdict
from benchmarks.servers import ROOT
from benchmarks.table import number

TEMPLATE = "performance.md.j2"
DOCUMENT = ROOT / "docs" / "performance.md"
QUICK_DOCUMENT = ROOT / "build" / "bench" / "performance.md"
ABSENT = "*Not measured yet.*"


def write(results: Results, document: Path) -> None:
    """Write the document, and the charts beside it."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    drawn = _Drawn(results, document.parent / "charts")
    words = {name: getattr(drawn, name) for name in ("bars", "facts", "factors", "lines", "table", "when")}
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(environment.get_template(TEMPLATE).render(words))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The results as the template asks for them."""

    results: Results
    folder: Path

    def facts(self) -> dict[str, Any]:
        """The machine of the latest part."""
        return max((one.facts for one in self.results), key=lambda facts: str(facts["at"]))

    def table(self, part: str, title: str = "", size: str = "largest") -> str:
        """One table of a part, or the rows of all its tables under each other."""
        measured = self._one(part, size)
        if measured is None or not measured.tables:
            return ABSENT
        tables = [_table(measured, title)] if title else measured.tables
        return markdown(Table(title, tuple(row for one in tables for row in one.rows)))

    def bars(self, part: str, title: str, size: str = "largest", leave_out: Sequence[str] = ()) -> str:
        """A chart with bars of a table."""
        rows = self._rows(part, title, leave_out, size)
        return self._chart(title, charts.bars((row.title, row.values) for row in rows)) if rows else ABSENT

    def lines(self, part: str, title: str, leave_out: Sequence[str] = ()) -> str:
        """A chart with a panel for each row of a table, over all sizes."""
        panels = [
            Panel(row.title, {column: self._over_sizes(part, title, row.name, column) for column in row.values})
            for row in self._rows(part, title, leave_out)
        ]
        return self._chart(f"{title}, by length", charts.lines(panels)) if panels else ABSENT

    def factors(self, part: str, title: str, leave_out: Sequence[str] = ()) -> str:
        """A table: how many times the number at the smallest size is that at the largest."""
        grown = [
            Row(row.title, "", {column: self._factor(part, title, row.name, column) for column in row.values})
            for row in self._rows(part, title, leave_out)
        ]
        return markdown(Table("", tuple(grown))) if grown else ABSENT

    def when(self) -> str:
        """When each part was measured, and how busy the machine was."""
        lines = ["| | log of | measured (UTC) | load before | took, s |", "|---|---|---|---|---|"]
        for one in self.results:
            facts, size = one.facts, f"{one.size:,}" if one.size else ""
            lines.append(f"| {one.part} | {size} | {facts['at']} | {facts['load']} | {facts['seconds']} |")
        return "\n".join(lines)

    def _one(self, part: str, size: str) -> Measured | None:
        found = self.results.of(part)
        return (found[-1] if size == "largest" else found[0]) if found else None

    def _rows(self, part: str, title: str, leave_out: Sequence[str], size: str = "largest") -> list[Row]:
        measured = self._one(part, size)
        if measured is None:
            return []
        return [row for row in _table(measured, title).rows if not any(word in row.name for word in leave_out)]

    def _over_sizes(self, part: str, title: str, name: str, column: str) -> list[tuple[int, float]]:
        found = [(one.size, _table(one, title).row(name).values) for one in self.results.of(part)]
        return [(size, values[column]) for size, values in found if column in values]

    def _factor(self, part: str, title: str, name: str, column: str) -> float:
        points = self._over_sizes(part, title, name, column)
        return points[-1][1] / points[0][1]

    def _chart(self, title: str, drawing: str) -> str:
        name = "-".join("".join(letter if letter.isalnum() else " " for letter in title).split()) + ".svg"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(drawing)
        return f"![{title}](charts/{name})"


def markdown(table: Table) -> str:
    """A table as Markdown, with how each goal was reached if there are any."""
    has_goals = any(row.goals for row in table.rows)
    heading = ["", *table.columns, *(["beside them, or goal"] if has_goals else [])]
    lines = [_line(heading), "|" + "---|" * len(heading)]
    for row in table.rows:
        cells = [number(row.values[column]) if column in row.values else "" for column in table.columns]
        goals = ["; ".join(map(_told, row.verdicts))] if has_goals else []
        lines.append(_line([row.title, *cells, *goals]))
    return "\n".join(lines)


def _told(verdict: Verdict) -> str:
    goal = verdict.goal
    bound = f"{'at most' if goal.at_most else 'at least'} {goal.bound:g}"
    missed = "" if verdict.is_reached else ": missed"
    return f"{number(verdict.found)} x {goal.of} ({bound}{missed})" if goal.of else f"{bound}{missed}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(measured: Measured, title: str) -> Table:
    found = [one for one in measured.tables if one.title == title]
    if not found:
        raise LookupError(f"{measured.part} has no table called {title!r}")
    return found[0]


def main() -> None:
    """Write the document; with `--quick` that of the last quick run, which belongs to nobody's documents."""
    quick = "--quick" in sys.argv
    path, document = (QUICK_RESULTS, QUICK_DOCUMENT) if quick else (RESULTS, DOCUMENT)
    results = Results.load(ROOT / path)
    if not list(results):
        sys.exit(f"{path} has no results: run make bench first")
    write(results, document)
    print(f"{document.relative_to(ROOT)} is written.")


if __name__ == "__main__":
    main()
