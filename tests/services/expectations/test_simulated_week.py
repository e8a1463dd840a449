"""A week of 2,000 runs of 50 job types, with workers that crash at every step."""

import random
from collections import Counter

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.services.ports import Views
from tests.conformance.anyjob.anyjob import Json, create, finish
from tests.exactness.stores import CallOnce, Crash, InterceptedViews
from tests.services.expectations.expectation_log import ExpectationLog
from tests.services.fakes import World

TYPES = 50
RUNS = 2_000
WEEK_S = 7 * 24 * 3600
CHECK_S = 7_200


def test_week_with_crashes_has_each_alarm_once(log: SqliteLog, sqlite_views: Views, world: World) -> None:
    rng, jobs = random.Random(7), ExpectationLog(log, sqlite_views, world)
    for number in range(TYPES):
        schedule = {"every": "4h"} if number % 2 else {"cron": f"{number} */4 * * *", "time_zone": "Europe/Berlin"}
        limits = {"grace": "20m", "max_duration": "1h", "min_interval": "30m"}
        jobs.put(f"type-{number}", type=f"type-{number}", **schedule, **limits)
    events = sorted(_runs(rng), key=lambda entry: entry[0])
    start_ms, crashes = world.now_ms, 0
    for seconds in range(CHECK_S, WEEK_S + CHECK_S, CHECK_S):
        while events and events[0][0] < seconds:
            at_s, event = events.pop(0)
            world.now_ms = start_ms + round(at_s * 1000)
            jobs.publish(event)
        world.now_ms = start_ms + seconds * 1000
        views = InterceptedViews(sqlite_views, Counter(), CallOnce(rng.randrange(1, 200), _crash))
        try:
            jobs.work(jobs.due_index(views))
        except Crash:
            crashes += 1
    alarms = Counter[str]()
    for number in range(TYPES):
        jobs.verify(f"type-{number}")
        alarms.update(kind for kind, *_ in jobs.alarms(f"type-{number}"))
    assert crashes > 25
    assert min(alarms[kind] for kind in ("missed", "late", "overdue", "early", "recovered")) > 10


def _runs(rng: random.Random) -> list[tuple[float, Json]]:
    """Most runs start about every four hours. Some are missing, late, too long, too frequent, or fail."""
    events: list[tuple[float, Json]] = []
    for job in range(RUNS):
        slot, kind = job // TYPES, f"type-{job % TYPES}"
        at_s = slot * 4 * 3600 + rng.choice([30, 60, 600, 1_300, 2_000, -1_800, 12_000])
        duration_s = rng.choice([60, 600, 3_590, 3_700, 9_000])
        if at_s > 0 and rng.random() < 0.85:
            events.append((at_s, create(job, type=kind)))
            events.append((at_s + duration_s, finish(job, type=kind, success=rng.choice("011"))))
    return [(at_s, event) for at_s, event in events if at_s < WEEK_S]


def _crash() -> None:
    raise Crash
