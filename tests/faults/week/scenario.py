"""The scenario of a week: runs of jobs that go missing, late, fail and recover, and what people configure meanwhile."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.faults.week.configurations import FixedTimes, JobType, expectations, job_types, observers

Json = dict[str, Any]

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
DAYS = 7
MAX_DELAY_MS = 4 * MINUTE_MS
FIRST_DAYS = (date(2026, 10, 22), date(2026, 10, 29), date(2026, 3, 26), date(2026, 3, 5))
"""In each of these weeks a clock changes: in Berlin or in New York, in autumn or in spring."""
RUNS_OF_TYPE = 40
FAILURE_SHARE = 0.06
INCIDENT_SHARE = 0.85
"""Share of the runs that fail during an incident."""


class Action(NamedTuple):
    """What a publisher or an admin does at a time."""

    at_ms: int
    kind: str
    name: str = ""
    fields: Any = None


@dataclass(frozen=True)
class Scenario:
    """All actions of a week, in order."""

    start_ms: int
    end_ms: int
    actions: list[Action]
    planned_runs: int


def create_scenario(
    seed: int, types: int = 50, runs_of_type: int = RUNS_OF_TYPE, first_day: date | None = None
) -> Scenario:
    """The scenario of a seed. Without a date the seed also selects the week."""
    start = datetime.combine(first_day or FIRST_DAYS[seed % len(FIRST_DAYS)], time(), UTC)
    start_ms = int(start.timestamp() * 1000)
    writer = _Writer(random.Random(seed), start, start_ms, job_types(types))
    writer.write(runs_of_type)
    actions = list(_join(sorted(writer.actions, key=lambda action: action.at_ms), writer.rng))
    end_ms = start_ms + DAYS * 24 * HOUR_MS
    return Scenario(start_ms, end_ms, [one for one in actions if one.at_ms < end_ms], writer.planned_runs)


@dataclass
class _Writer:
    rng: random.Random
    start: datetime
    start_ms: int
    types: list[JobType]
    actions: list[Action] = field(default_factory=list)
    planned_runs: int = 0
    last_job: int = 1_000

    def write(self, runs_of_type: int) -> None:
        for name, fields in expectations(self.types).items():
            self._add(0, "put expectation", name, fields)
        for name, fields in observers(self.types).items():
            self._add(0, "put observer", name, fields)
        global_incident = (3 * 24 + 5 + self.rng.random() * 12) * HOUR_MS
        for job_type in self.types:
            own_incident = self.rng.random() * 6 * 24 * HOUR_MS
            incidents = [(global_incident, global_incident + 8 * HOUR_MS)]
            incidents.append((own_incident, own_incident + self.rng.uniform(6, 26) * HOUR_MS))
            for planned_ms in self._planned_starts(job_type, runs_of_type):
                self._write_run(job_type, planned_ms, incidents)
        self._change_expectations()
        self._change_observers()
        self._mute()
        for hours, kind in ((20, "lose views"), (50, "reset views"), (90, "lose views"), (120, "reset views")):
            self._add((hours + self.rng.uniform(0, 30)) * HOUR_MS, kind)

    def _add(self, at_ms: float, kind: str, name: str = "", fields: Any = None) -> None:
        self.actions.append(Action(self.start_ms + int(at_ms), kind, name, fields))

    def _planned_starts(self, job_type: JobType, count: int) -> Iterator[float]:
        """Milliseconds since the start of the week. Jobs with fixed times follow the clock of their zone."""
        self.planned_runs += count
        if isinstance(job_type.starts, FixedTimes):
            zone, times = ZoneInfo(job_type.starts.zone), job_type.starts.times
            local = [
                datetime.combine(self.start.date() + timedelta(days=day), at, zone)
                for day in range(-1, 9)
                for at in times
            ]
            starts = [(one.astimezone(UTC) - self.start).total_seconds() * 1000 for one in local]
            yield from [start for start in starts if start > HOUR_MS][:count]
        else:
            first_ms = self.rng.uniform(0.1, 4) * HOUR_MS
            yield from (first_ms + number * job_type.starts * HOUR_MS for number in range(count))

    def _write_run(self, job_type: JobType, planned_ms: float, incidents: list[tuple[float, float]]) -> None:
        rng = self.rng
        if rng.random() < 0.1:
            return  # The run is missing.
        minutes = rng.choice([rng.uniform(0.1, 3)] * 12 + [-0.6, rng.uniform(8, 15), rng.uniform(27, 40), 150])
        start_ms = planned_ms + minutes * MINUTE_MS
        end_ms = self._write_job(job_type, start_ms, incidents)
        if rng.random() < 0.05:
            self._write_job(job_type, end_ms + rng.uniform(1, 9) * MINUTE_MS, incidents)

    def _write_job(self, job_type: JobType, start_ms: float, incidents: list[tuple[float, float]]) -> float:
        """The events of one run. Returns when it ends."""
        rng = self.rng
        self.last_job += 1
        number, node = job_type.job or self.last_job, rng.choice(["n1", "n1", "n2"])
        long_minutes = [rng.uniform(20, 50), rng.uniform(65, 150)]
        duration_ms = rng.choice([rng.uniform(1, 12)] * 9 + long_minutes) * MINUTE_MS
        end_ms = start_ms + duration_ms
        fields = {"id": number, "node": node, "type": job_type.name, "params": {}, "props": {}}
        self._publish(start_ms, {"event": "create", **fields})
        if job_type.makes_progress:
            at_ms = start_ms + self._pause_ms()
            while at_ms < end_ms:
                self._publish(at_ms, {"event": "progress", "state": "run", **fields})
                at_ms += self._pause_ms()
        if rng.random() < 0.04:
            redirect = {"event": "redirect", "id": number, "node": node, "redirect": "n2"}
            self._publish(start_ms + duration_ms * rng.random(), redirect)
        if rng.random() < 0.02:
            return end_ms  # It never ends, until it is cleaned.
        is_incident = any(begin <= end_ms < end for begin, end in incidents)
        is_failure = rng.random() < (INCIDENT_SHARE if is_incident else FAILURE_SHARE)
        message = "disk full" if is_failure else "done"
        self._publish(end_ms, {"event": "finish", "success": str(int(not is_failure)), "message": message, **fields})
        return end_ms

    def _pause_ms(self) -> float:
        """Between two events of a run. Some pauses exceed the longest silence that is allowed."""
        return self.rng.choice([self.rng.uniform(4, 12)] * 7 + [self.rng.uniform(16, 45)]) * MINUTE_MS

    def _publish(self, at_ms: float, event: Json) -> None:
        self._add(at_ms, "publish", fields=event)

    def _change_expectations(self) -> None:
        rng, configured = self.rng, expectations(self.types)
        names = rng.sample(sorted(configured), min(16, len(configured)))
        for number, name in enumerate(names):
            fields, at_ms = configured[name], rng.uniform(10, 80) * HOUR_MS
            later_ms = at_ms + rng.uniform(3, 40) * HOUR_MS
            match number % 4:
                case 0:
                    self._add(at_ms, "put expectation", name, {**fields, "paused": True})
                    self._add(later_ms, "put expectation", name, fields)
                case 1:
                    self._add(at_ms, "put expectation", name, _stricter(fields))
                    self._add(later_ms, "put expectation", name, {**fields, "description": "as before"})
                case 2:
                    self._add(at_ms, "delete expectation", name)
                case _:
                    self._add(at_ms, "delete expectation", name)
                    self._add(later_ms, "put expectation", name, fields)

    def _change_observers(self) -> None:
        rng, configured = self.rng, observers(self.types)
        changed = configured["changed"]
        rules: list[tuple[float, Json]] = [
            (30, {"digest": "3h"}),
            (55, {"throttle": "4h"}),
            (80, {}),
            (100, {"quiet": "10:00-15:00"}),
        ]
        for after, more in rules:
            at_ms = (after + rng.random() * 5) * HOUR_MS
            self._add(at_ms, "put observer", "changed", {**changed, "digest": None, **more})
        self._add(rng.uniform(60, 100) * HOUR_MS, "delete observer", "window")
        created = rng.uniform(110, 130) * HOUR_MS
        self._add(created, "put observer", "window", {**configured["window"], "when": "change"})
        for name in ("snoozed", "plain", "mixed"):
            begin, hours = rng.uniform(20, 100) * HOUR_MS, rng.uniform(3, 12)
            self._add(begin, "snooze", name, self.start_ms + int(begin + hours * HOUR_MS))
            if name == "snoozed":
                self._add(begin + hours / 2 * HOUR_MS, "snooze", name, 0)
                later = begin + 30 * HOUR_MS
                self._add(later, "snooze", name, self.start_ms + int(later + 9 * HOUR_MS))

    def _mute(self) -> None:
        rng, names = self.rng, [job_type.name for job_type in self.types]
        for number in range(14):
            at_ms, hours = rng.uniform(5, 150) * HOUR_MS, rng.uniform(2, 20)
            until_ms = self.start_ms + int(at_ms + hours * HOUR_MS)
            name = rng.choice(names)
            match number % 7:
                case 0 | 1:
                    self._add(at_ms, "silence", name, {"type": name, "until": until_ms})
                case 2:
                    pattern = rng.choice(
                        [["job", "finish", "n2", "*"], ["job", "missed", "?", name], ["job", "late", "*"]]
                    )
                    self._add(at_ms, "silence", "pattern", {"pattern": pattern, "until": until_ms})
                case 3:
                    self._add(at_ms, "silence", name, {"type": name, "until": until_ms})
                    self._add(at_ms + hours / 3 * HOUR_MS, "end silence", name)
                case _:
                    # Acknowledged during the incident of all types, or at another time.
                    self._add(at_ms, "acknowledge", name, {"until": until_ms if number % 2 else None})
        for name in rng.sample(names, min(6, len(names))):
            self._add(rng.uniform(80, 96) * HOUR_MS, "acknowledge", name, {"until": None})


def _join(actions: list[Action], rng: random.Random) -> Iterator[Action]:
    """Some publishers send the events of a few minutes in one request."""
    waiting: list[Action] = []
    for action in actions:
        if waiting and (action.kind != "publish" or action.at_ms > waiting[0].at_ms + MAX_DELAY_MS):
            yield _request(waiting)
            waiting = []
        if action.kind != "publish":
            yield action
        elif waiting or rng.random() < 0.1:
            waiting.append(action)
        else:
            yield _request([action])
    if waiting:
        yield _request(waiting)


def _request(actions: list[Action]) -> Action:
    return actions[-1]._replace(fields=[action.fields for action in actions])


def _stricter(fields: Json) -> Json:
    """Another schedule, and limits that running jobs may already exceed."""
    changed = {name: value for name, value in fields.items() if name not in ("cron", "time_zone", "every")}
    if "cron" in fields or "every" in fields:
        changed |= {"every": "3h", "grace": "10m"}
    return {**changed, "max_duration": "4m", "max_silence": "9m"}
