"""Progress for people: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from typing import TextIO

WIDTH = 40
EVERY_S = 0.1
"""How often a bar is drawn."""
TENTH = 10


class Progress:
    """How far a long task is; `total` is what there is to do."""

    def __init__(self, name: str, total: int, unit: str, stream: TextIO | None = None) -> None:
        self._name = name
        self._total = max(total, 1)
        self._unit = unit
        self._stream = stream or sys.stdout
        self._is_terminal = self._stream.isatty()
        self._began = time.monotonic()
        self._next_s = 0.0
        self._next_tenth = 1

    def to(self, done: int) -> None:
        """So much is done."""
        passed_s = time.monotonic() - self._began
        if self._is_terminal and passed_s >= self._next_s:
            self._next_s = passed_s + EVERY_S
            self._draw(done, passed_s)
        elif not self._is_terminal and done * TENTH >= self._next_tenth * self._total and done < self._total:
            self._next_tenth = done * TENTH // self._total + 1
            self._say(f"{self._name}: {done:,} of {self._total:,} {self._unit}")

    def end(self, text: str) -> None:
        """All is done; `text` says what came of it."""
        self._say(f"\r\x1b[K{text}" if self._is_terminal else text)

    def _draw(self, done: int, passed_s: float) -> None:
        filled = WIDTH * done // self._total
        left_s = passed_s / done * (self._total - done) if done else 0.0
        bar = f"[{'#' * filled}{'.' * (WIDTH - filled)}]"
        self._stream.write(f"\r{self._name} {bar} {done:,}/{self._total:,} {self._unit}, {left_s:.0f} s left \x1b[K")
        self._stream.flush()

    def _say(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()
