"""Decides the alarms of an expectation: a fold over its configurations and the events of its runs.

The result depends on the log and on the time up to which it is evaluated, and on nothing else. So it is the same for
every worker, after a crash, and if it is computed again from the beginning. An alarm is decided at the moment when it
falls due, however late it is computed. Alarms that are in the log already are not decided again.

The rules:

- A start at `t` belongs to the latest slot `s` with `s <= t + early`, where `early` is 60 seconds, or half the time
  since the previous slot if that is shorter. With `every`, the next slots count from this start.
- A slot is missed if no start belongs to it until the end of its grace period. If the first start comes later, but
  before the next slot, it is late.
- Only slots after the time of a configuration count. After a pause, `every` counts from its end.
- A run is overdue once if it takes too long, and once for each silence that is too long.
- A pause suppresses alarms. Runs are followed meanwhile.
- `recovered` follows the first successful end of a run after an alarm, and closes all open alarms.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from chalicelib.domain import timestamps
from chalicelib.domain.expectations import alarm as alarms
from chalicelib.domain.expectations.alarm import Alarm, Identity
from chalicelib.domain.expectations.expectation import SECOND_US, Expectation, Version
from chalicelib.domain.expectations.facts import JobFact, continues, starts

MAX_EARLY_US = 60 * SECOND_US
MAX_OPEN_RUNS = 1_000
"""With more open runs, the one that started first is no longer followed."""
MAX_UNEXPECTED = 100
"""Limit of the alarms in the log that are remembered although they were not decided."""


@dataclass(frozen=True, slots=True)
class Run:
    """An open run of a job."""

    start_us: int
    last_us: int
    """The last event."""
    is_overdue: bool = False
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class OpenAlarms:
    """The alarms of one kind since the expectation recovered last."""

    count: int
    first_us: int
    last_us: int


class _Due(NamedTuple):
    """An alarm that falls due unless an event prevents it. `job` is -1 for a slot."""

    due_us: int
    reason: str
    job: int
    time_us: int
    """The slot, the start, or the last event of the run."""


class ExpectationFold:
    """The state of an expectation at a time. Threads must not share it."""

    def __init__(self, versions: Sequence[Version], start_us: int = 0) -> None:
        """Start with the first version, or at `start_us` if earlier events are no longer stored."""
        self.versions = versions
        self.index = max(sum(version.at_us <= start_us for version in versions) - 1, 0)
        self.time_us = max(versions[self.index].at_us, start_us)
        """All alarms that fell due before are decided."""
        self.at_us = self.time_us
        """When the current version began."""
        self.previous_us = self.time_us
        """The latest slot that a start can belong to. At first the beginning of the version, or the last start."""
        self.upcoming_us: int | None = None
        self.awaiting: list[int] = []
        """Slots that have no start yet, although a start of a later slot has come."""
        self.unmet_us: int | None = None
        """The latest slot, if it was missed and no run has started since."""
        self.last_start_us: int | None = None
        self.runs: dict[int, Run] = {}
        """Open runs by job, in the order in which they started."""
        self.open: dict[str, OpenAlarms] = {}
        """Open alarms by kind."""
        self.pending: dict[Identity, Alarm] = {}
        """Decided alarms that are not in the log yet, in order."""
        self.unexpected: dict[Identity, int] = {}
        """Alarms in the log that are not decided, with their EventIds. The clock was set back, or a configuration
        changed while they were written."""
        self._begin_slots(None)

    @property
    def expectation(self) -> Expectation:
        """The configuration at this time."""
        return self.versions[self.index].expectation

    @property
    def expected_us(self) -> int | None:
        """The slot for which the next run is expected."""
        return self.awaiting[0] if self.awaiting else self.upcoming_us

    @property
    def next_due_us(self) -> int | None:
        """The time after which something is decided unless an event comes before. None: only an event can change it."""
        due = self._next_due()
        # A version may begin later than now, if the clock was set back.
        changes = [version.at_us for version in self.versions[self.index + 1 :]]
        return min([*changes, *(() if due is None else (due.due_us,))], default=None)

    def advance(self, until_us: int) -> None:
        """Decide the alarms that fell due before `until_us`."""
        while True:
            following = self.versions[self.index + 1 : self.index + 2]
            is_last = not following or following[0].at_us >= until_us
            self._decide_due(until_us if is_last else following[0].at_us)
            if is_last:
                break
            self._change(following[0])
        self.time_us = max(self.time_us, until_us)

    def apply_job(self, fact: JobFact) -> None:
        """Apply an event of a job. Events must come in the order of the log."""
        if fact.event_id <= self.at_us:
            return  # It was written before the first version.
        self.advance(fact.event_id)
        expectation, run = self.expectation, self.runs.get(fact.job)
        if run is None and starts(fact, expectation):
            self._start(fact)
        elif run is not None and continues(fact, expectation):
            if fact.is_end:
                self._end(fact)
            elif expectation.max_silence is not None:
                # Without it, readers may leave out these events.
                self.runs[fact.job] = replace(run, last_us=fact.event_id, is_silent=False)

    def apply_alarm(self, alarm: Alarm) -> None:
        """Apply an alarm that is in the log."""
        self.advance(alarm.due_us)
        if self.pending.pop(alarm.identity, None) is not None:
            return
        self.unexpected[alarm.identity] = alarm.due_us
        while len(self.unexpected) > MAX_UNEXPECTED:
            del self.unexpected[next(iter(self.unexpected))]
        self._open(alarm)

    def _start(self, fact: JobFact) -> None:
        start_us, expectation = fact.event_id, self.expectation
        self.runs[fact.job] = Run(start_us, start_us)
        if len(self.runs) > MAX_OPEN_RUNS:
            del self.runs[next(iter(self.runs))]
        previous_us, self.last_start_us = self.last_start_us, start_us
        if expectation.paused:
            return
        slot_us = self._slot_of(start_us)
        if slot_us is not None:
            if slot_us == self.unmet_us or ("missed", timestamps.iso(slot_us)) in self.unexpected:
                self._decide(alarms.late(slot_us, fact.job, start_us))
            self.awaiting = [awaited for awaited in self.awaiting if awaited != slot_us]
        self.unmet_us = None
        if expectation.every is not None:
            self.awaiting, self.previous_us = [], start_us
            self.upcoming_us = expectation.next_slot(start_us)
        min_interval_us = round((expectation.min_interval or 0) * SECOND_US)
        if previous_us is not None and start_us - previous_us < min_interval_us:
            self._decide(alarms.early(fact.job, start_us, previous_us))

    def _end(self, fact: JobFact) -> None:
        del self.runs[fact.job]
        if fact.is_success and self.open and not self.expectation.paused:
            since_us = min(opened.first_us for opened in self.open.values())
            self._decide(alarms.recovered(fact.job, fact.event_id, since_us, sorted(self.open)))

    def _slot_of(self, start_us: int) -> int | None:
        """The slot that has no start yet and to which a start belongs."""
        while self.upcoming_us is not None:
            early_us = min(MAX_EARLY_US, (self.upcoming_us - self.previous_us) // 2)
            if self.upcoming_us > start_us + early_us:
                break
            self.awaiting.append(self.upcoming_us)
            self._pass_upcoming()
            self.unmet_us = None
        if self.unmet_us is not None:
            return self.unmet_us
        return self.previous_us if self.previous_us in self.awaiting else None

    def _pass_upcoming(self) -> None:
        if self.upcoming_us is not None:
            self.previous_us = self.upcoming_us
            self.upcoming_us = self.expectation.next_slot(self.upcoming_us)

    def _decide_due(self, end_us: int) -> None:
        while (due := self._next_due()) is not None and due.due_us < end_us:
            self._decide_one(due)

    def _decide_one(self, due: _Due) -> None:
        match due.reason:
            case "missed":
                if self.awaiting:
                    self.awaiting.pop(0)
                else:
                    self._pass_upcoming()
                self.unmet_us = self.previous_us if due.time_us == self.previous_us else self.unmet_us
                self._decide(alarms.missed(due.time_us, due.due_us))
            case "duration":
                run = self.runs[due.job]
                self.runs[due.job] = replace(run, is_overdue=True)
                self._decide(alarms.overdue(due.job, run.start_us, due.due_us))
            case "silence":
                run = self.runs[due.job]
                self.runs[due.job] = replace(run, is_silent=True)
                self._decide(alarms.silent(due.job, run.start_us, run.last_us, due.due_us))

    def _next_due(self) -> _Due | None:
        return min(self._dues(), default=None)

    def _dues(self) -> Iterator[_Due]:
        expectation = self.expectation
        if expectation.paused:
            return
        slot_us = self.expected_us
        if slot_us is not None:
            yield _Due(slot_us + expectation.grace_us, "missed", -1, slot_us)
        # Where a limit was exceeded before this version began, the alarm follows at its beginning.
        if expectation.max_duration is not None:
            limit_us = round(expectation.max_duration * SECOND_US)
            for job, run in self.runs.items():
                if not run.is_overdue:
                    yield _Due(max(run.start_us + limit_us, self.at_us), "duration", job, run.start_us)
        if expectation.max_silence is not None:
            limit_us = round(expectation.max_silence * SECOND_US)
            for job, run in self.runs.items():
                if not run.is_silent:
                    yield _Due(max(run.last_us + limit_us, self.at_us), "silence", job, run.last_us)

    def _change(self, version: Version) -> None:
        """Continue with the next version."""
        before = self.expectation
        self.index += 1
        self.at_us = self.time_us = version.at_us
        if version.expectation.subject != before.subject:
            self.runs, self.last_start_us = {}, None
        if before.max_silence is None and version.expectation.max_silence is not None:
            # Events of the runs were not followed so far, so their silence counts from now.
            self.runs = {job: replace(run, last_us=self.at_us, is_silent=False) for job, run in self.runs.items()}
        self._begin_slots(None if before.paused else self.last_start_us)

    def _begin_slots(self, last_start_us: int | None) -> None:
        expectation = self.expectation
        self.previous_us, self.awaiting, self.unmet_us = self.at_us, [], None
        self.upcoming_us = None if expectation.paused else expectation.first_slot(last_start_us, self.at_us)

    def _decide(self, alarm: Alarm) -> None:
        if self.unexpected.pop(alarm.identity, None) is not None:
            return  # It was in the log before it was due.
        self.pending[alarm.identity] = alarm.about(self.expectation)
        self._open(alarm)

    def _open(self, alarm: Alarm) -> None:
        if alarm.kind == "recovered":
            self.open = {}
            return
        last = self.open.get(alarm.kind, OpenAlarms(0, alarm.due_us, alarm.due_us))
        self.open[alarm.kind] = OpenAlarms(last.count + 1, last.first_us, alarm.due_us)
