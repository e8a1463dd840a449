"""The report: injected faults and results of each target."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.torture.checks.checker import Kind, Violation
from tests.torture.faults import Fault

LOST = (Kind.LOST, Kind.TORN)
DOUBLED = (Kind.DOUBLED, Kind.REPEATED)
SKIPPED = (Kind.SKIPPED, Kind.GAP)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of one target."""

    target: str
    attempted: int = 0
    hostile: int = 0
    """Number of hostile requests."""
    acknowledged: int = 0
    acknowledged_events: int = 0
    refused: int = 0
    unacknowledged: int = 0
    events: int = 0
    readings: int = 0
    read: int = 0
    """Events received by all readers together."""
    runs: int = 0
    """Stored items with several commits."""
    faults: Counter[Fault] = field(default_factory=Counter)
    violations: tuple[Violation, ...] = ()

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.target,
            self.attempted + other.attempted,
            self.hostile + other.hostile,
            self.acknowledged + other.acknowledged,
            self.acknowledged_events + other.acknowledged_events,
            self.refused + other.refused,
            self.unacknowledged + other.unacknowledged,
            self.events + other.events,
            self.readings + other.readings,
            self.read + other.read,
            self.runs + other.runs,
            self.faults + other.faults,
            self.violations + other.violations,
        )

    def count(self, *kinds: Kind) -> int:
        """Number of violations of these kinds."""
        return sum(violation.kind in kinds for violation in self.violations)


def table(outcomes: Iterable[Outcome]) -> str:
    """Format the outcomes as a table with one column per target."""
    outcomes = list(outcomes)
    rows: list[tuple[str, Callable[[Outcome], int]]] = [
        ("faults injected", lambda outcome: outcome.faults.total()),
        ("hostile requests", lambda outcome: outcome.hostile),
        ("requests attempted", lambda outcome: outcome.attempted),
        ("  acknowledged", lambda outcome: outcome.acknowledged),
        ("  refused (condition, contention)", lambda outcome: outcome.refused),
        ("  unacknowledged", lambda outcome: outcome.unacknowledged),
        ("events acknowledged", lambda outcome: outcome.acknowledged_events),
        ("events in the log", lambda outcome: outcome.events),
        ("items with several commits", lambda outcome: outcome.runs),
        ("passes of readers", lambda outcome: outcome.readings),
        ("events read", lambda outcome: outcome.read),
        ("lost", lambda outcome: outcome.count(*LOST)),
        ("duplicated", lambda outcome: outcome.count(*DOUBLED)),
        ("skipped", lambda outcome: outcome.count(*SKIPPED)),
        ("other violations", lambda outcome: len(outcome.violations) - outcome.count(*LOST, *DOUBLED, *SKIPPED)),
    ]
    faults = sorted({fault for outcome in outcomes for fault in outcome.faults}, key=list(Fault).index)
    lines = [_line("", [outcome.target for outcome in outcomes])]
    lines += [_line(fault, [outcome.faults[fault] or "-" for outcome in outcomes]) for fault in faults]
    lines += [_line(name, [value(outcome) for outcome in outcomes]) for name, value in rows]
    return "\n".join(lines)


def _line(name: str, values: Iterable[object]) -> str:
    return f"{name:<54}" + "".join(f"{value!s:>10}" for value in values)
