"""Write docs/performance.md and its charts from the results: `python -m benchmarks.report.document`.

The text is in `performance.md.j2`. Every number comes from the results.
"""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.peers.servers import ROOT
from benchmarks.report import charts
from benchmarks.report.charts import Panel
from benchmarks.report.results import QUICK_RESULTS, RESULTS, Measurement, Results, Row, Table, Verdict
from benchmarks.report.table import format_number

TEMPLATE = "performance.md.j2"
DOCUMENT = ROOT / "docs" / "performance.md"
QUICK_DOCUMENT = ROOT / "build" / "bench" / "performance.md"
ABSENT = "*Not measured yet.*"


def write(results: Results, document: Path) -> None:
    """Write the document, and its charts in the folder beside it."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    functions = _TemplateFunctions(results, document.parent / "charts")
    context = {name: getattr(functions, name) for name in ("bars", "facts", "factors", "lines", "table", "when")}
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(environment.get_template(TEMPLATE).render(context))


@dataclass(frozen=True, slots=True)
class _TemplateFunctions:
    """The functions that the template calls."""

    results: Results
    folder: Path

    def facts(self) -> dict[str, Any]:
        """The facts of the latest measurement."""
        return max((measurement.facts for measurement in self.results), key=lambda facts: str(facts["at"]))

    def table(self, part: str, title: str = "", size: str = "largest") -> str:
        """One table of a part, or the rows of all its tables."""
        measurement = self._measurement(part, size)
        if measurement is None or not measurement.tables:
            return ABSENT
        tables = [_find_table(measurement, title)] if title else measurement.tables
        rows = tuple(row for table in tables for row in table.rows)
        return f"{markdown(Table(title, rows))}\n\n{_caption([measurement])}"

    def bars(self, part: str, title: str, size: str = "largest", leave_out: Sequence[str] = ()) -> str:
        """A bar chart of a table."""
        rows = self._rows(part, title, leave_out, size)
        return self._write_chart(title, charts.bars((row.title, row.values) for row in rows)) if rows else ABSENT

    def lines(self, part: str, title: str, leave_out: Sequence[str] = ()) -> str:
        """A line chart over all sizes, with one panel per row of a table."""
        panels = [
            Panel(row.title, {column: self._over_sizes(part, title, row.name, column) for column in row.values})
            for row in self._rows(part, title, leave_out)
        ]
        return self._write_chart(f"{title}, by length", charts.lines(panels)) if panels else ABSENT

    def factors(self, part: str, title: str, leave_out: Sequence[str] = ()) -> str:
        """A table of growth factors: the number at the largest size divided by that at the smallest."""
        grown = [
            Row(row.title, "", {column: self._factor(part, title, row.name, column) for column in row.values})
            for row in self._rows(part, title, leave_out)
        ]
        return f"{markdown(Table('', tuple(grown)))}\n\n{_caption(self.results.for_part(part))}" if grown else ABSENT

    def when(self) -> str:
        """A table of when each part was measured, and the load average before."""
        lines = ["| | log of | measured (UTC) | load before | took, s |", "|---|---|---|---|---|"]
        for measurement in self.results:
            facts, size = measurement.facts, f"{measurement.size:,}" if measurement.size else ""
            lines.append(f"| {measurement.part} | {size} | {facts['at']} | {facts['load']} | {facts['seconds']} |")
        return "\n".join(lines)

    def _measurement(self, part: str, size: str) -> Measurement | None:
        measurements = self.results.for_part(part)
        return (measurements[-1] if size == "largest" else measurements[0]) if measurements else None

    def _rows(self, part: str, title: str, leave_out: Sequence[str], size: str = "largest") -> list[Row]:
        measurement = self._measurement(part, size)
        if measurement is None:
            return []
        return [row for row in _find_table(measurement, title).rows if not any(word in row.name for word in leave_out)]

    def _over_sizes(self, part: str, title: str, name: str, column: str) -> list[tuple[int, float]]:
        rows = [(entry.size, _find_table(entry, title).row(name).values) for entry in self.results.for_part(part)]
        return [(size, values[column]) for size, values in rows if column in values]

    def _factor(self, part: str, title: str, name: str, column: str) -> float:
        points = self._over_sizes(part, title, name, column)
        return points[-1][1] / points[0][1]

    def _write_chart(self, title: str, drawing: str) -> str:
        name = "-".join("".join(letter if letter.isalnum() else " " for letter in title).split()) + ".svg"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(drawing)
        return f"![{title}](charts/{name})"


def _caption(measurements: Sequence[Measurement]) -> str:
    """The command that measures a table, and when that was."""
    part, days = measurements[0].part, {str(measurement.facts["at"])[:10] for measurement in measurements}
    command = "make bench-spark" if part == "spark" else f'make bench ARGS="--only {shlex.quote(part)}"'
    return f"`{command}`, {' and '.join(sorted(days))}"


def markdown(table: Table) -> str:
    """Format a table as Markdown, with a column for the goals if there are any."""
    has_goals = any(row.goals for row in table.rows)
    heading = ["", *table.columns, *(["beside them, or goal"] if has_goals else [])]
    lines = [_markdown_row(heading), "|" + "---|" * len(heading)]
    for row in table.rows:
        cells = [format_number(row.values[column]) if column in row.values else "" for column in table.columns]
        goals = ["; ".join(map(_format_verdict, row.verdicts))] if has_goals else []
        lines.append(_markdown_row([row.title, *cells, *goals]))
    return "\n".join(lines)


def _format_verdict(verdict: Verdict) -> str:
    goal = verdict.goal
    bound = f"{'at most' if goal.at_most else 'at least'} {goal.bound:g}"
    missed = "" if verdict.is_reached else ": missed"
    return f"{format_number(verdict.value)} x {goal.of} ({bound}{missed})" if goal.of else f"{bound}{missed}"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _find_table(measurement: Measurement, title: str) -> Table:
    for table in measurement.tables:
        if table.title == title:
            return table
    raise LookupError(f"{measurement.part} has no table called {title!r}")


def main() -> None:
    """Write docs/performance.md, or with `--quick` the document of the last quick run in `build/bench/`."""
    quick = "--quick" in sys.argv
    path, document = (QUICK_RESULTS, QUICK_DOCUMENT) if quick else (RESULTS, DOCUMENT)
    results = Results.load(ROOT / path)
    if not list(results):
        sys.exit(f"{path} has no results. Run `make bench` first")
    write(results, document)
    print(f"Wrote {document.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
