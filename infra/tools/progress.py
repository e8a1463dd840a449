"""Shows progress: a bar on a terminal, a line per tenth elsewhere."""

import sys
import time
from typing import TextIO

WIDTH = 40
REDRAW_INTERVAL_S = 0.1
TENTHS = 10


class Progress:
    """Progress of a long task of `total` units."""

    def __init__(self, name: str, total: int, unit: str, stream: TextIO | None = None) -> None:
        self._name = name
        self._total = max(total, 1)
        self._unit = unit
        self._stream = stream or sys.stdout
        self._is_terminal = self._stream.isatty()
        self._started_s = time.monotonic()
        self._next_redraw_s = 0.0
        self._next_tenth = 1

    def update(self, done: int) -> None:
        """Report that `done` units are finished."""
        elapsed_s = time.monotonic() - self._started_s
        if self._is_terminal and elapsed_s >= self._next_redraw_s:
            self._next_redraw_s = elapsed_s + REDRAW_INTERVAL_S
            self._draw(done, elapsed_s)
        elif not self._is_terminal and done * TENTHS >= self._next_tenth * self._total and done < self._total:
            self._next_tenth = done * TENTHS // self._total + 1
            self._write_line(f"{self._name}: {done:,} of {self._total:,} {self._unit}")

    def finish(self, text: str) -> None:
        """Replace the bar by `text`."""
        self._write_line(f"\r\x1b[K{text}" if self._is_terminal else text)

    def _draw(self, done: int, elapsed_s: float) -> None:
        filled = WIDTH * done // self._total
        remaining_s = elapsed_s / done * (self._total - done) if done else 0.0
        bar = f"[{'#' * filled}{'.' * (WIDTH - filled)}]"
        self._stream.write(
            f"\r{self._name} {bar} {done:,}/{self._total:,} {self._unit}, {remaining_s:.0f} s left \x1b[K"
        )
        self._stream.flush()

    def _write_line(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()
