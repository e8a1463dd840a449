"""Limits of one rendering: processor time, and the size of all values that the template creates.

Every value is charged with its contents, and before it is created if it could be large. So no value is larger than
`Limits.value_cost`, and all values together, and all work on them, stay within `Limits.total_cost`.
"""

import time
from dataclasses import dataclass

BASE_COST = 32
"""Cost of any value. A string also costs its length, so that costs are roughly bytes."""
MAX_INT_BITS = 4096
"""Limited because division of longer integers is slow."""

_SEQUENCES = (list, tuple)
_NUMBERS = (int, range)


class LimitExceeded(Exception):
    """A template needs more than one rendering may use. The message continues a sentence that begins with "it"."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one rendering may use."""

    cpu_seconds: float = 1.0
    output_bytes: int = 256 * 1024
    value_cost: int = 1024 * 1024
    """Cost of a single value."""
    total_cost: int = 8 * 1024 * 1024
    """Cost of all values together."""


class Budget:
    """The rest of the limits for one rendering. It belongs to the thread that created it."""

    __slots__ = ("_cpu_start", "_deadline", "_limits", "_remaining")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._remaining = limits.total_cost
        self._cpu_start = time.thread_time()
        self._deadline = time.monotonic() + limits.cpu_seconds

    def charge(self, amount: int) -> None:
        """Charge one operation whose result costs `amount`. Raises `LimitExceeded` if a limit is reached."""
        if amount > self._limits.value_cost:
            raise LimitExceeded(f"makes a value larger than {format_size(self._limits.value_cost)}")
        self._remaining -= BASE_COST + (amount if amount > 0 else 0)
        if self._remaining < 0:
            raise LimitExceeded(f"makes more than {format_size(self._limits.total_cost)} of values")
        # Wall-clock time is cheaper to read, but on a busy machine only the processor time is the template's fault.
        if time.monotonic() > self._deadline and time.thread_time() - self._cpu_start > self._limits.cpu_seconds:
            raise LimitExceeded(f"takes longer than {self._limits.cpu_seconds:g} s")

    def charge_value(self, value: object) -> None:
        self.charge(len(value) if isinstance(value, str) else cost(value, self._limits.value_cost))


def cost(value: object, limit: int) -> int:
    """The cost of `value` with its contents, or some number above `limit`. Shared contents count each time."""
    if isinstance(value, str):
        return BASE_COST + len(value)
    total, pending = 0, [value]
    while pending and total <= limit:
        item = pending.pop()
        total += BASE_COST
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, _SEQUENCES):
            pending += item
        elif isinstance(item, dict):
            pending += item
            pending += item.values()
        elif isinstance(item, _NUMBERS):
            total += _number_cost(item)
    return total


def _number_cost(value: int | range) -> int:
    if isinstance(value, range):
        return BASE_COST * len(value)
    if value.bit_length() > MAX_INT_BITS:
        raise LimitExceeded(f"makes a number of more than {MAX_INT_BITS} bits")
    return 0


def format_size(size: int) -> str:
    return f"{size // 1024} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:g} MB"
