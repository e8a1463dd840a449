"""The job types of a week, what is expected of them, and the observers of their events."""

from dataclasses import dataclass
from datetime import time
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class FixedTimes:
    """The times of day at which a job starts, in a time zone."""

    zone: str
    times: tuple[time, ...]


@dataclass(frozen=True)
class JobType:
    """A type of jobs: when they start, and what is expected."""

    name: str
    starts: FixedTimes | float
    """A float is an interval in hours."""
    expectation: Json | None
    makes_progress: bool = False
    job: int | None = None
    """All runs are runs of this job. None: each run is a job of its own."""


ENDS = ["job/finish/*", "job/clean/*"]
ALARMS = ["job/missed/*", "job/late/*", "job/overdue/*", "job/early/*", "job/recovered/*"]
CLEAN_TIMEOUT = "6h"


def job_types(count: int) -> list[JobType]:
    """Types with all kinds of schedules and limits."""
    return [_job_type(number) for number in range(count)]


def _job_type(number: int) -> JobType:
    name, minute = f"type-{number:02}", number % 60
    match number % 5:
        case 0:
            # 02:30 is skipped or repeated when the clocks change.
            hours = (2, 6, 10, 14, 18, 22)
            zone = "Europe/Berlin" if number % 10 else "America/New_York"
            expectation = {"cron": "30 2,6,10,14,18,22 * * *", "time_zone": zone, "grace": "20m", "max_duration": "1h"}
            return JobType(name, _fixed(zone, 30, hours), expectation)
        case 1:
            return JobType(name, 4.0, {"every": "4h", "grace": "25m", "min_interval": "30m"})
        case 2:
            zone = "America/New_York" if number % 10 == 2 else "Europe/Berlin"
            cron = {"cron": f"{minute} */4 * * *", "time_zone": zone, "grace": "15m"}
            limits = {"max_duration": "90m", "min_interval": "20m"}
            return JobType(name, _fixed(zone, minute, (0, 4, 8, 12, 16, 20)), cron | limits)
        case 3:
            limits = {"max_silence": "15m", "max_duration": "2h", "min_interval": "20m"}
            return JobType(name, 4.0, limits, makes_progress=number % 10 == 3)
        case _:
            return _rare_type(number, name)


def _rare_type(number: int, name: str) -> JobType:
    if number in (4, 14):
        return JobType(name, 4.0, {"every": "5h", "grace": "2h", "node": "n1"})
    if number in (24, 34):
        limits = {"every": "4h", "grace": "30m", "max_duration": "50m", "min_interval": "15m"}
        return JobType(name, 4.0, {"key": f"/job/{number}", **limits}, job=number)
    if number == 44:
        return JobType(name, 3.9, None)
    zone = "Asia/Kolkata"
    cron = {"cron": "17 1,5,9,13,17,21 * * *", "time_zone": zone, "grace": "1h", "max_silence": "30m"}
    return JobType(name, _fixed(zone, 17, (1, 5, 9, 13, 17, 21)), cron)


def _fixed(zone: str, minute: int, hours: tuple[int, ...]) -> FixedTimes:
    return FixedTimes(zone, tuple(time(hour, minute) for hour in hours))


def expectations(types: list[JobType]) -> dict[str, Json]:
    """By name. Some types have two."""
    found = {
        one.name: {**({} if "key" in one.expectation else {"type": one.name}), **one.expectation}
        for one in types
        if one.expectation is not None
    }
    for one in types[3::12]:
        found[f"{one.name}-short"] = {"type": one.name, "max_duration": "30m"}
    return found


def observers(types: list[JobType]) -> dict[str, Json]:
    """By name, without the channel. All rules for fewer messages occur, alone and together."""
    names = [one.name for one in types]
    few = [f"job/{kind}/?/{name}" for name in names[:8] for kind in ("finish", "clean")]
    some = [f"job/{kind}/?/{name}" for name in names[10:18] for kind in ("finish", "missed", "late", "recovered")]
    many = [f"job/{kind}/?/{name}" for name in names[::4] for kind in ("finish", "clean")]
    keyed = [f"job/finish/?/{one.name}" for one in types if one.job is not None]
    return {
        "plain": {"types": few, "filter": "event.success == '0'"},
        "alarms": {"types": [f"job/{kind}/?/{name}" for name in names[:12] for kind in ("missed", "overdue", "early")]},
        "change": {"types": [*many, "job/missed/*", "job/recovered/*"], "when": "change"},
        "nodes": {"types": many, "when": "change", "group_by": ["type", "node"], "filter": "event.node != 'n3'"},
        "first-node": {"types": few, "when": "failures(2)", "filter": "event.node == 'n1'"},
        "third": {"types": [*ENDS, *ALARMS], "when": "failures(3)"},
        "recovered": {"types": [*ENDS, "job/recovered/*"], "when": "recovered"},
        "window": {"types": [*ENDS, *ALARMS], "digest": "30m", "group_by": ["node"]},
        "times": {
            "types": ["job/late/*", "job/overdue/*"],
            "digest": "08:00, 16:00",
            "time_zone": "Europe/Berlin",
            "to": "anna, bela",
        },
        "throttle": {"types": [*ENDS, *ALARMS], "throttle": "2h", "group_by": ["node"]},
        "quiet": {"types": some, "quiet": "22:00-07:00", "time_zone": "America/New_York"},
        "repeated-hour": {"types": some, "when": "change", "quiet": "23:15-02:30", "time_zone": "Europe/Berlin"},
        "mixed": {
            "types": [*some, "job/overdue/*", "job/recovered/*"],
            "when": "change",
            "digest": "20m",
            "throttle": "3h",
            "quiet": "22:00-07:00",
            "time_zone": "Europe/Berlin",
        },
        "daily": {
            "types": ["job/*"],
            "digest": "12:00",
            "throttle": "30h",
            "group_by": ["node"],
            "quiet": "11:45-13:15",
        },
        "keys": {"types": keyed, "when": "failures(2)", "group_by": ["key"]},
        "snoozed": {"types": [*many, "job/missed/*"], "when": "change", "group_by": ["type", "node"]},
        "changed": {"types": many, "digest": "1h", "group_by": ["node"]},
    }
