"""Settings of a run, its progress, and when it may end."""

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from tests.torture.checks.journal import SUFFIX, FaultInjected
from tests.torture.faults import Fault

REPORT_INTERVAL_S = 1.0


def _ignore(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of a run."""

    home: Path
    """A directory that does not exist yet."""
    seconds: float
    seed: str
    print_progress: Callable[[str], None] = _ignore
    min_acknowledged: int = 0
    """The run is extended until this many requests are acknowledged, some are refused, and all faults occurred."""
    max_extra_s: float = 0.0
    """Maximum extension."""


class Progress:
    """Progress of a run, read from the journals of its writers."""

    def __init__(self, target: str, settings: RunSettings, expected_faults: Collection[Fault]) -> None:
        self._target = target
        self._settings = settings
        self._expected_faults = set(expected_faults)
        self._began = time.monotonic()
        self._next = self._began + REPORT_INTERVAL_S

    def should_continue(self, faults: Counter[Fault]) -> bool:
        """Whether the run should continue. Prints the progress regularly. `faults` are those not in a journal."""
        passed_s = time.monotonic() - self._began
        if self._began + passed_s < self._next:
            return True
        self._next += REPORT_INTERVAL_S
        journals = [path.read_bytes() for path in self._settings.home.glob(f"writer*{SUFFIX}")]
        acknowledged, refused = (sum(text.count(line) for text in journals) for line in (_ACKNOWLEDGED, _REFUSED))
        injected = {
            fault for fault in self._expected_faults if faults[fault] or any(_fault_entry(fault) in j for j in journals)
        }
        self._settings.print_progress(
            f"{self._target:>9} {passed_s:5.1f} s: {acknowledged} acknowledged by {len(journals)} writers, "
            f"{len(injected)} of {len(self._expected_faults)} kinds of faults so far"
        )
        is_enough = acknowledged >= self._settings.min_acknowledged and refused and injected == self._expected_faults
        limit_s = self._settings.seconds + (0 if is_enough else self._settings.max_extra_s)
        return passed_s < limit_s


_ACKNOWLEDGED = b'{"line":"acknowledged"'
_REFUSED = b'{"line":"denied"'


def _fault_entry(fault: Fault) -> bytes:
    return FaultInjected(fault=fault).model_dump_json().encode()
