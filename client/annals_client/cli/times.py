"""Parse times such as `2026-11-04T11:07Z` and `2026-11-04`, and durations before now: `90s`, `10m`, `2h`, `3d`."""

import re
from datetime import UTC, datetime, timedelta

SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_AGO = re.compile(r"(\d+)([smhd])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a time. Without a time zone, it is in that of `now`."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(seconds=int(ago[1]) * SECONDS_PER_UNIT[ago[2]])
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=now.tzinfo)


def parse_duration(text: str) -> float:
    """Parse a duration such as `90s` or `1h30m`, in seconds. A number without a unit has seconds."""
    if not _DURATION.fullmatch(text):
        seconds = float(text)
        if not 0 <= seconds < float("inf"):
            raise ValueError(text)
        return seconds
    parts = re.findall(r"([\d.]+)([smhd])", text)
    return sum(float(number) * SECONDS_PER_UNIT[unit] for number, unit in parts)


def position_before(time: datetime) -> int:
    """The position just before `time`: an EventId is microseconds since 1970."""
    return max((time - _EPOCH) // timedelta(microseconds=1) - 1, 0)
