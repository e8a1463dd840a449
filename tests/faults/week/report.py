"""One week: runs it, compares its outcome, and counts what has happened."""

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.week.check import Differences, Outcome, compare
from tests.faults.week.kills import Kills
from tests.faults.week.scenario import RUNS_OF_TYPE, create_scenario
from tests.faults.week.week import Week

MEMORY = Path("/dev/shm")
"""Files here need no disk. The kills end processes, not the machine, so no write has to reach a disk."""
MAX_SHOWN = 10


@dataclass
class WeekReport:
    """The events, kills and deviations of a week."""

    seed: int
    planned_runs: int
    started_runs: int
    job_types: int
    alarms: "Counter[str]"
    """By kind."""
    messages: "Counter[str]"
    """By observer."""
    kills: Kills
    errors: "Counter[str]"
    unfinished: int
    seconds: float = 0.0
    differences: dict[str, Differences] = field(default_factory=dict)

    @property
    def lines(self) -> Iterator[str]:
        yield (
            f"seed {self.seed}: {self.started_runs} of {self.planned_runs} runs of {self.job_types} types, "
            f"{self.alarms.total()} alarms {dict(self.alarms)}, {self.messages.total()} messages, "
            f"{self.kills.kills.total()} kills in {self.kills.writes.total()} writes, {self.seconds:.0f} s"
        )
        for name, differences in self.differences.items():
            for problem, found in (("missing", differences.missing), ("unexpected", differences.unexpected)):
                for item in found[:MAX_SHOWN]:
                    yield f"  {name}: {problem}: {item}"
        if self.errors or self.unfinished:
            yield f"  errors {dict(self.errors)}, {self.unfinished} deliveries neither sent nor dropped"

    @property
    def is_exact(self) -> bool:
        return not any(self.differences.values()) and not self.unfinished and not self.errors


def run_week(folder: Path, seed: int, types: int = 50, runs_of_type: int = RUNS_OF_TYPE) -> WeekReport:
    """Run the week of a seed with files in `folder`."""
    started = time.monotonic()
    scenario = create_scenario(seed, types, runs_of_type)
    week = Week(folder, scenario, seed)
    try:
        week.run()
        outcome = Outcome(week.components.stores.log, week.server, folder, week.world.now_ms)
        report = _report(week, outcome)
    finally:
        week.close()
    report.seconds = time.monotonic() - started
    return report


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A folder whose files are in memory, if the machine has such a file system."""
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _report(week: Week, outcome: Outcome) -> WeekReport:
    starts = [entry for entry in outcome.entries if entry.type[:2] == ("job", "create")]
    return WeekReport(
        seed=week.seed,
        planned_runs=week.scenario.planned_runs,
        started_runs=len(starts),
        job_types=len({entry.job_type for entry in starts}),
        alarms=Counter(alarm[0] for _, alarm in outcome.logged_alarms.elements()),
        messages=Counter(message.observer for _, message in outcome.deliveries.elements()),
        kills=week.kills,
        errors=week.errors,
        unfinished=outcome.unfinished,
        differences={
            "alarms": compare(outcome.expected_alarms, outcome.logged_alarms),
            "deliveries": compare(outcome.expected_deliveries, outcome.deliveries),
            "inbox": compare(outcome.expected_inbox, outcome.inbox),
        },
    )
