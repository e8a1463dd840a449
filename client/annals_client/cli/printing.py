"""Output for people, or with `--json` one JSON value per line for programs."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

from annals_client.values import Event, Json, Replayed
from annals_client.wire import event_json

COLOURS = {"dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1"}
FAILURE_SUBTYPES = {"failure", "failed", "error", "crashed", "aborted", "clean", "timed_out", "quorum_failed"}
SUCCESS_SUBTYPES = {"finish", "finished", "success", "succeeded", "complete", "ready"}
BAR_WIDTH = 30
MAX_DATA_LENGTH = 160


@dataclass(frozen=True)
class Printer:
    """Prints text, or JSON if `is_json`. Every line is flushed."""

    is_json: bool
    is_coloured: bool
    out: TextIO

    def event(self, event: Event) -> None:
        self.line(json.dumps(event_json(event)) if self.is_json else self._event_line(event))

    def value(self, value: object) -> None:
        """Print a value as JSON, indented for people."""
        if self.is_json:
            self.line(json.dumps(value))
            return
        for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n"):
            self.line(escape_control(line))

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print a table of the columns, or the complete rows as JSON."""
        if self.is_json:
            for row in rows:
                self.line(json.dumps(row))
            return
        cells = [columns, *([_format_cell(row.get(column), column) for column in columns] for row in rows)]
        widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
        for number, line in enumerate(cells):
            text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            self.line(self._colourize(text, "dim") if number == 0 else text)

    def result(self, text: str, value: object) -> None:
        """Print `text`, or `value` as JSON."""
        self.line(json.dumps(value) if self.is_json else text)

    def line(self, text: str) -> None:
        self.out.write(text + "\n")
        self.out.flush()

    def _event_line(self, event: Event) -> str:
        columns = [
            self._colourize(_format_local_time(event.timestamp), "dim"),
            self._colourize(escape_control(event.path) or "(no type)", _event_colour(event)),
            self._colourize(escape_control(event.key or "-"), "bold"),
            self._colourize(escape_control(" ".join(f"#{tag}" for tag in event.tags)), "dim"),
            self._colourize(escape_control(_format_payload(event)), "dim"),
        ]
        return "  ".join(column for column in columns if column)

    def _colourize(self, text: str, colour: str) -> str:
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self.is_coloured and text else text


def create_printer(is_json: bool, colour: str, out: TextIO | None = None) -> Printer:
    """Create a printer. With `auto` it uses colours on a terminal unless NO_COLOR is set."""
    out = out or sys.stdout
    is_terminal = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Printer(is_json, not is_json and (colour == "always" or (colour == "auto" and is_terminal)), out)


def escape_control(text: str) -> str:
    """Escape control characters, so that published text cannot move the cursor or forge lines."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def progress_bar(part: Replayed, first: int) -> str:
    """Progress bar of a replay that started at the position `first`."""
    total = max(part.until - first, 1)
    share = 1.0 if part.is_done else min(max((part.event_id - first) / total, 0.0), 1.0)
    full = int(share * BAR_WIDTH)
    return f"[{'#' * full}{'.' * (BAR_WIDTH - full)}] {share:4.0%}  {part.deliveries} deliveries"


def _event_colour(event: Event) -> str:
    subtypes = set(event.type)
    data = event.payload.data if isinstance(event.payload, Json) else None
    failed = isinstance(data, Mapping) and data.get("success") == "0"
    if failed or subtypes & FAILURE_SUBTYPES:
        return "red"
    return "green" if subtypes & SUCCESS_SUBTYPES else "cyan"


def _format_payload(event: Event) -> str:
    match event.payload:
        case None:
            return ""
        case Json(data=data):
            text = json.dumps(data, ensure_ascii=False)
            return text if len(text) <= MAX_DATA_LENGTH else text[: MAX_DATA_LENGTH - 1] + "…"
        case binary:
            return f"<{binary.name}, {len(binary.data)} bytes>"


def _format_local_time(time: datetime) -> str:
    """In the local time zone, with milliseconds and the offset: 2026-11-04 12:07:36.606+01:00."""
    return time.astimezone().isoformat(sep=" ", timespec="milliseconds")


def _format_cell(value: object, column: str) -> str:
    """A value of a table. Columns called `at`, `…At` and `…Since` contain times."""
    match value:
        case None:
            return "-"
        case str() if column == "at" or column.endswith(("At", "Since")):
            return _format_local_time(datetime.fromisoformat(value))
        case str():
            return escape_control(value)
        case _:
            return escape_control(json.dumps(value, ensure_ascii=False))
