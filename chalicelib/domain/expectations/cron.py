"""Cron expressions: the times at which a job is expected, in a time zone.

`cronsim` implements the rules of Debian's cron. Where clocks change, the times depend on the form of the expression:

- Fixed times, such as `30 2 * * *`: a time that the spring change skips moves to the first minute after the gap. A
  time that the autumn change repeats counts once, the first time.
- Expressions whose minute or hour begins with `*`, such as `*/15 * * * *` or `0 * * * *`: they follow real time. No
  slot falls into the gap, and each slot of the repeated hour counts.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

MAX_CRON_LENGTH = 200
EXPECTED = "five fields (minute, hour, day of month, month, day of week), such as '30 2 * * MON-FRI'"
SAMPLED_SLOTS = 100
SAMPLE_START_US = 1_704_067_200_000_000
"""2024-01-01. A fixed start, so that the same expression always has the same shortest interval."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def check_cron(expression: str, time_zone: str) -> None:
    """Raises `ValueError` if the zone is unknown, or if the expression is not valid or never fires."""
    from cronsim import CronSimError  # noqa: PLC0415  (only expectations with a cron expression need it)

    _zone(time_zone)
    text = expression[:80]
    if expression.startswith("@"):
        raise ValueError(f"names such as '{text}' are not supported; use {EXPECTED}")
    if len(expression.split()) != 5 or len(expression) > MAX_CRON_LENGTH:
        raise ValueError(f"'{text}' is not a cron expression; it has {EXPECTED}")
    try:
        slot = next_cron_slot(expression, time_zone, SAMPLE_START_US)
    except CronSimError as error:
        if not _is_cron(_in_every_month(expression)):
            raise ValueError(f"'{text}' is not a cron expression ({error}); it has {EXPECTED}") from error
        slot = None  # The day does not exist in these months.
    if slot is None:
        raise ValueError(f"'{text}' never fires: no date matches it; it has {EXPECTED}")


def next_cron_slot(expression: str, time_zone: str, after_us: int) -> int | None:
    """The first slot after a time. None if 50 years pass without a slot."""
    from cronsim import CronSim  # noqa: PLC0415

    after = (_EPOCH + after_us // 1_000_000 * _SECOND).astimezone(_zone(time_zone))
    # In the repeated hour of autumn, `cronsim` may begin with slots of the first pass.
    for slot in CronSim(expression, after):
        slot_us = (slot - _EPOCH) // _SECOND * 1_000_000
        if slot_us > after_us:
            return slot_us
    return None


@lru_cache(maxsize=1024)
def shortest_interval_us(expression: str, time_zone: str) -> int:
    """The shortest of the first intervals between slots after a fixed date."""
    slot, shortest = next_cron_slot(expression, time_zone, SAMPLE_START_US), 0
    for _ in range(SAMPLED_SLOTS):
        following = None if slot is None else next_cron_slot(expression, time_zone, slot)
        if slot is None or following is None:
            break
        shortest = min(following - slot, shortest or following - slot)
        slot = following
    return shortest


def _in_every_month(expression: str) -> str:
    minute, hour, day, _, weekday = expression.split()
    return f"{minute} {hour} {day} * {weekday}"


def _is_cron(expression: str) -> bool:
    from cronsim import CronSim, CronSimError  # noqa: PLC0415

    try:
        CronSim(expression, _EPOCH)
    except CronSimError:
        return False
    return True


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"unknown time zone '{name[:80]}'; use an IANA name such as 'Europe/Berlin', or 'UTC'"
        ) from error
