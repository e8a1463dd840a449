"""Progress: what a run is asked for, how far it is, and when that is enough."""

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from tests.torture.faults import Fault
from tests.torture.journal import SUFFIX, Suffered

EVERY_S = 1.0


def _say_nothing(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True)
class Order:
    """How a target is to be tortured."""

    home: Path
    """A directory that is not there yet."""
    seconds: float
    seed: str
    say: Callable[[str], None] = _say_nothing
    enough: int = 0
    """So many requests acknowledged, some refused and each fault suffered: else the run takes longer than ordered."""
    patience_s: float = 0.0
    """But not more than this."""


class Progress:
    """How far a run is, from what its writers have written down."""

    def __init__(self, target: str, order: Order, wanted: Collection[Fault]) -> None:
        self._target = target
        self._order = order
        self._wanted = set(wanted)
        self._began = time.monotonic()
        self._next = self._began + EVERY_S

    def goes_on(self, faults: Counter[Fault]) -> bool:
        """Whether the run is to go on, given the faults that no journal tells of; says now and then how far it is."""
        passed_s = time.monotonic() - self._began
        if self._began + passed_s < self._next:
            return True
        self._next += EVERY_S
        journals = [path.read_bytes() for path in self._order.home.glob(f"writer*{SUFFIX}")]
        acknowledged, denied = (sum(text.count(line) for text in journals) for line in (_ACKNOWLEDGED, _DENIED))
        suffered = {fault for fault in self._wanted if faults[fault] or any(_suffered(fault) in j for j in journals)}
        self._order.say(
            f"{self._target:>9} {passed_s:5.1f} s: {acknowledged} acknowledged by {len(journals)} writers, "
            f"{len(suffered)} of {len(self._wanted)} kinds of faults so far"
        )
        is_enough = acknowledged >= self._order.enough and denied and suffered == self._wanted
        most_s = self._order.seconds + (0 if is_enough else self._order.patience_s)
        return passed_s < most_s


_ACKNOWLEDGED = b'{"line":"acknowledged"'
_DENIED = b'{"line":"denied"'


def _suffered(fault: Fault) -> bytes:
    return Suffered(fault=fault).model_dump_json().encode()
