"""What people see, and with `--json` what programs read: one JSON value a line."""

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
BAD = {"failure", "failed", "error", "crashed", "aborted", "clean", "timed_out", "quorum_failed"}
GOOD = {"finish", "finished", "success", "succeeded", "complete", "ready"}
BAR = 30
LONGEST_DATA = 160


@dataclass(frozen=True)
class Printer:
    """Prints for a person or for a program."""

    is_json: bool
    is_coloured: bool
    out: TextIO

    def event(self, event: Event) -> None:
        """An event on a line of its own, at once."""
        self.line(json.dumps(event_json(event)) if self.is_json else self._event_line(event))

    def value(self, value: object) -> None:
        """A value as JSON; with line breaks for people."""
        if self.is_json:
            self.line(json.dumps(value))
            return
        for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n"):
            self.line(shown(line))

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """A table of these columns; for programs the whole rows, one a line."""
        if self.is_json:
            for row in rows:
                self.line(json.dumps(row))
            return
        cells = [columns, *([_cell(row.get(column)) for column in columns] for row in rows)]
        widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
        for number, line in enumerate(cells):
            text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            self.line(self._coloured(text, "dim") if number == 0 else text)

    def told(self, words: str, value: object) -> None:
        """One sentence for people, its facts for programs."""
        self.line(json.dumps(value) if self.is_json else words)

    def line(self, text: str) -> None:
        """A line, for the reader to have now."""
        self.out.write(text + "\n")
        self.out.flush()

    def _event_line(self, event: Event) -> str:
        words = [
            self._coloured(_local(event.timestamp), "dim"),
            self._coloured(shown(event.path) or "(no type)", _colour_of(event)),
            self._coloured(shown(event.key or "-"), "bold"),
            self._coloured(shown(_data(event)), "dim"),
        ]
        return "  ".join(word for word in words if word)

    def _coloured(self, text: str, colour: str) -> str:
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self.is_coloured and text else text


def printer(is_json: bool, colour: str, out: TextIO | None = None) -> Printer:
    """A printer to `out`, coloured if that is wanted: by the option, else by NO_COLOR, else if it is a terminal."""
    out = out or sys.stdout
    by_itself = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Printer(is_json, not is_json and (colour == "always" or (colour == "auto" and by_itself)), out)


def shown(text: str) -> str:
    """The text as a terminal may show it: whoever publishes must not move its cursor or fake its lines."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def bar(part: Replayed, first: int) -> str:
    """How far a replay has come, from the position where it began."""
    whole = max(part.until - first, 1)
    share = 1.0 if part.is_done else min(max((part.event_id - first) / whole, 0.0), 1.0)
    full = int(share * BAR)
    return f"[{'#' * full}{'.' * (BAR - full)}] {share:4.0%}  {part.deliveries} deliveries"


def _colour_of(event: Event) -> str:
    words = set(event.type)
    data = event.payload.data if isinstance(event.payload, Json) else None
    failed = isinstance(data, Mapping) and data.get("success") == "0"
    if failed or words & BAD:
        return "red"
    return "green" if words & GOOD else "cyan"


def _data(event: Event) -> str:
    match event.payload:
        case None:
            return ""
        case Json(data=data):
            text = json.dumps(data, ensure_ascii=False)
            return text if len(text) <= LONGEST_DATA else text[: LONGEST_DATA - 1] + "…"
        case binary:
            return f"<{binary.name}, {len(binary.data)} bytes>"


def _local(time: datetime) -> str:
    """In the time zone of whoever reads; milliseconds are enough for people."""
    return time.astimezone().isoformat(sep=" ", timespec="milliseconds")[:23]


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case str():
            return shown(value)
        case _:
            return shown(json.dumps(value, ensure_ascii=False))
