"""A second computation of the alarms of an expectation, by definition.

It looks at a complete history: it lists all slots and all runs, and decides each alarm on its own. Nothing is shared
with the product but the configuration and the facts.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from chalicelib.domain.expectations.expectation import Expectation, Version
from chalicelib.domain.expectations.facts import JobFact

S = 1_000_000
FOREVER = 2**60

Expected = tuple[str, int, int, str]
"""Kind, its slot, start, last event before a silence, or end of the run, its job, and the reason."""


@dataclass(frozen=True)
class Segment:
    """The time in which a version holds: from `start` on, without it, up to `end`."""

    expectation: Expectation
    start: int
    end: int
    era: int
    """Consecutive versions about the same jobs have the same number."""
    follows_pause: bool
    has_new_silence: bool
    """Whether silences count from its start, because the version before did not have them."""


@dataclass
class ReferenceRun:
    """A run, with all times at which its silence starts again."""

    job: int
    start: int
    era_end: int
    touches: list[int] = field(default_factory=list)
    end: int = FOREVER
    is_success: bool = False


def reference_alarms(versions: Sequence[Version], facts: Sequence[JobFact], now: int) -> set[Expected]:
    """All alarms that fell due before `now`."""
    segments = list(_segments(versions))
    alarms: dict[Expected, int] = {}
    runs: list[ReferenceRun] = []
    for era in sorted({segment.era for segment in segments}):
        parts = [segment for segment in segments if segment.era == era]
        in_era = [fact for fact in facts if parts[0].start < fact.event_id <= parts[-1].end]
        found = list(_runs(in_era, parts))
        runs += found
        starts = sorted(run.start for run in found)
        jobs = {run.start: run.job for run in found}
        for part in parts:
            if not part.expectation.paused:
                alarms |= _slot_alarms(part, starts, jobs, now)
                alarms |= _early_alarms(part, starts, jobs)
        alarms |= _overdue_alarms(parts, found, now)
    return set(alarms) | _recoveries(segments, runs, alarms)


def _segments(versions: Sequence[Version]) -> Iterator[Segment]:
    era = 0
    for i, version in enumerate(versions):
        before = versions[i - 1].expectation if i else None
        this = version.expectation
        if before is not None and (before.type, before.node, before.key) != (this.type, this.node, this.key):
            era += 1
        end = versions[i + 1].at_us if i + 1 < len(versions) else FOREVER
        new_silence = before is not None and before.max_silence is None and this.max_silence is not None
        yield Segment(this, version.at_us, end, era, before is not None and before.paused, new_silence)


def _holding(parts: Sequence[Segment], time: int) -> Segment:
    return next(part for part in reversed(parts) if part.start < time)


def _runs(facts: Sequence[JobFact], parts: Sequence[Segment]) -> Iterator[ReferenceRun]:
    for job in sorted({fact.job for fact in facts}):
        run: ReferenceRun | None = None
        for fact in (fact for fact in facts if fact.job == job):
            expectation = _holding(parts, fact.event_id).expectation
            is_own_job = expectation.key is None or expectation.key == f"/job/{job}"
            has_type = expectation.key is not None or fact.type == expectation.type
            if run is None:
                is_on_node = expectation.node is None or fact.node == expectation.node
                if fact.name == "create" and is_own_job and has_type and is_on_node:
                    run = ReferenceRun(job, fact.event_id, parts[-1].end, [fact.event_id])
            elif is_own_job and (has_type or fact.name == "redirect"):
                if fact.name in ("finish", "clean"):
                    run.end, run.is_success = fact.event_id, fact.is_success
                    yield _with_new_silences(run, parts)
                    run = None
                elif expectation.max_silence is not None:
                    run.touches.append(fact.event_id)
        if run is not None:
            yield _with_new_silences(run, parts)


def _with_new_silences(run: ReferenceRun, parts: Sequence[Segment]) -> ReferenceRun:
    run.touches += [part.start for part in parts if part.has_new_silence and run.start <= part.start < run.end]
    run.touches = sorted(set(run.touches))
    return run


def _slot_alarms(part: Segment, starts: list[int], jobs: dict[int, int], now: int) -> dict[Expected, int]:
    own = [start for start in starts if part.start < start <= part.end]
    end = min(part.end, now)
    if part.expectation.cron is not None:
        return _cron_alarms(part, own, jobs, end)
    if part.expectation.every is not None:
        before = [start for start in starts if start <= part.start]
        anchor = before[-1] if before and not part.follows_pause else part.start + 1
        return _interval_alarms(part, anchor, own, jobs, end)
    return {}


def _cron_alarms(part: Segment, starts: list[int], jobs: dict[int, int], end: int) -> dict[Expected, int]:
    alarms: dict[Expected, int] = {}
    latest = max([end, *starts]) + 60 * S
    slots = cron_slots(part.expectation.cron or "", part.expectation.zone, part.start, latest)
    opens = [
        slot - min(60 * S, (slot - before) // 2) for before, slot in zip([part.start, *slots], slots, strict=False)
    ]
    for i, slot in enumerate(slots):
        closes = opens[i + 1] if i + 1 < len(slots) else FOREVER
        due = slot + part.expectation.grace_us
        belonging = [start for start in starts if opens[i] <= start < closes]
        if any(start <= due for start in belonging) or due >= end:
            continue
        alarms["missed", slot, -1, ""] = due
        if belonging:
            alarms["late", slot, jobs[belonging[0]], ""] = belonging[0]
    return alarms


def _interval_alarms(
    part: Segment, anchor: int, starts: list[int], jobs: dict[int, int], end: int
) -> dict[Expected, int]:
    alarms: dict[Expected, int] = {}
    every, grace = round((part.expectation.every or 0) * S), part.expectation.grace_us
    for last, following in zip([anchor, *starts], [*starts, None], strict=True):
        latest = end if following is None else following
        numbers = range(1, (latest + 60 * S - last) // every + 2)
        slots = [last + k * every for k in numbers if last + k * every > part.start]
        alarms |= {("missed", slot, -1, ""): slot + grace for slot in slots if slot + grace < latest}
        if following is not None:
            befores = [max(last, part.start), *slots]
            reached = [
                s for before, s in zip(befores, slots, strict=False) if s - min(60 * S, (s - before) // 2) <= following
            ]
            if reached and reached[-1] + grace < following:
                alarms["late", reached[-1], jobs[following], ""] = following
    return alarms


def _early_alarms(part: Segment, starts: list[int], jobs: dict[int, int]) -> dict[Expected, int]:
    limit = part.expectation.min_interval
    return {
        ("early", start, jobs[start], ""): start
        for before, start in pairwise(starts)
        if limit is not None and part.start < start <= part.end and start - before < limit * S
    }


def _overdue_alarms(parts: Sequence[Segment], runs: Sequence[ReferenceRun], now: int) -> dict[Expected, int]:
    alarms: dict[Expected, int] = {}
    for run in runs:
        ends = min(run.end, run.era_end)
        if (due := _first_excess(parts, "max_duration", run.start, ends, now)) is not None:
            alarms["overdue", run.start, run.job, "duration"] = due
        for last, following in zip(run.touches, [*run.touches[1:], FOREVER], strict=True):
            if (due := _first_excess(parts, "max_silence", last, min(following, ends), now)) is not None:
                alarms["overdue", last, run.job, "silence"] = due
    return alarms


def _first_excess(parts: Sequence[Segment], limit: str, since: int, until: int, now: int) -> int | None:
    """The first time at which a version says that it takes too long since `since`, before `until`."""
    for part in parts:
        allowed: float | None = getattr(part.expectation, limit)
        if allowed is None or part.expectation.paused:
            continue
        due = max(since + round(allowed * S), part.start)
        if due < min(part.end, until, now):
            return due
    return None


def _recoveries(
    segments: Sequence[Segment], runs: Sequence[ReferenceRun], alarms: dict[Expected, int]
) -> set[Expected]:
    """Alarms on events come at the event, those that fall due after their time."""
    times = sorted(due + (kind not in ("late", "early")) for (kind, *_), due in alarms.items())
    recoveries, last = set[Expected](), 0
    for run in sorted((run for run in runs if run.is_success and run.end < FOREVER), key=lambda run: run.end):
        is_open = any(last < time <= run.end for time in times)
        if is_open and not _holding(segments, run.end).expectation.paused:
            recoveries.add(("recovered", run.end, run.job, ""))
            last = run.end
    return recoveries


def cron_slots(expression: str, zone: str, after: int, until: int) -> list[int]:
    """The slots of a cron expression whose day fields are all `*`, after a time and up to another."""
    first = date.fromordinal(_utc(after).date().toordinal() - 2)
    days = (_utc(until).date() - first).days + 3
    slots = sorted({slot for n in range(days) for slot in _slots_of_day(expression, zone, first + timedelta(days=n))})
    return slots[bisect_right(slots, after) : bisect_right(slots, until)]


@lru_cache(maxsize=10_000)
def _slots_of_day(expression: str, zone: str, day: date) -> tuple[int, ...]:
    """Every minute of the local day that matches, found among the minutes of UTC around it."""
    minute, hour, *_ = expression.split()
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    local: dict[datetime, list[int]] = {}
    for n in range(-15 * 60, 39 * 60):
        instant = midnight + timedelta(minutes=n)
        local.setdefault(instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0), []).append(_us(instant))
    wanted = [datetime(day.year, day.month, day.day, h, m) for h in _numbers(hour, 24) for m in _numbers(minute, 60)]
    if minute.startswith("*") or hour.startswith("*"):
        return tuple(instant for time in wanted for instant in local.get(time, []))
    # A skipped time becomes the first one after the gap, a repeated time counts once.
    return tuple(min(local[min(time for time in local if time >= wish)]) for wish in wanted)


def _numbers(cron_field: str, size: int) -> list[int]:
    if cron_field == "*":
        return list(range(size))
    if cron_field.startswith("*/"):
        return list(range(0, size, int(cron_field[2:])))
    return [int(number) for number in cron_field.split(",")]


def _utc(time_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


def _us(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
