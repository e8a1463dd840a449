"""What one rendering may take: time, and the size of all that it makes on its way.

Every value that a template makes is weighed with all that is in it, before it is made if it could be large. So no
value is larger than `Limits.value`, and all together, and all work on them, stay within `Limits.total`.
"""

import time
from dataclasses import dataclass

EACH = 32
"""What any value weighs at least; a text weighs its length on top, so that a weight is about bytes."""
MOST_BITS = 4096
"""The longest whole number; to divide longer ones takes long."""

_SEQUENCES = (list, tuple)
_NUMBERS = (int, range)


class TooMuch(Exception):
    """A template asks for more than one rendering may take; the text goes on after "it"."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one rendering may take."""

    seconds: float = 1.0
    output: int = 256 * 1024
    """Bytes of what comes out."""
    value: int = 1024 * 1024
    """The weight of one value."""
    total: int = 8 * 1024 * 1024
    """The weight of all values made on the way."""


class Allowance:
    """What is left for one rendering, in the thread in which it began."""

    __slots__ = ("_began", "_deadline", "_left", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left = limits.total
        self._began = time.thread_time()
        self._deadline = time.monotonic() + limits.seconds

    def spend(self, size: int) -> None:
        """Take `size` and the time until now off what is left; raise `TooMuch` if that is gone."""
        if size > self._limits.value:
            raise TooMuch(f"makes a value larger than {amount(self._limits.value)}")
        self._left -= EACH + (size if size > 0 else 0)
        if self._left < 0:
            raise TooMuch(f"makes more than {amount(self._limits.total)} on its way")
        # A busy machine is not the template's fault: past the deadline, what counts is the time it had.
        if time.monotonic() > self._deadline and time.thread_time() - self._began > self._limits.seconds:
            raise TooMuch(f"takes longer than {self._limits.seconds:g} s")

    def weigh(self, value: object) -> None:
        """Spend what `value` weighs."""
        self.spend(len(value) if isinstance(value, str) else weight(value, self._limits.value))


def weight(value: object, most: int) -> int:
    """What `value` weighs with all that is in it, or something above `most`; what is in it twice counts twice."""
    if isinstance(value, str):
        return EACH + len(value)
    total, pending = 0, [value]
    while pending and total <= most:
        one = pending.pop()
        total += EACH
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, _SEQUENCES):
            pending += one
        elif isinstance(one, dict):
            pending += one
            pending += one.values()
        elif isinstance(one, _NUMBERS):
            total += _of_numbers(one)
    return total


def _of_numbers(value: int | range) -> int:
    if isinstance(value, range):
        return EACH * len(value)
    if value.bit_length() > MOST_BITS:
        raise TooMuch(f"makes a number of more than {MOST_BITS} bits")
    return 0


def amount(size: int) -> str:
    """A size as people read it."""
    return f"{size // 1024} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:g} MB"
