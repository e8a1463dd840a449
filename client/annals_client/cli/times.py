"""Times as people write them: `2026-11-04T11:07Z`, `2026-11-04`, or how long ago: `90s`, `10m`, `2h`, `3d`."""

import re
from datetime import UTC, datetime, timedelta

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGO = re.compile(r"(\d+)([smhd])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(text: str, now: datetime) -> datetime:
    """The time that is meant; one without a zone is the local time of `now`."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(seconds=int(ago[1]) * SECONDS[ago[2]])
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=now.tzinfo)


def position_before(time: datetime) -> int:
    """The position after which all events from `time` on come: an EventId is microseconds since 1970."""
    return max((time - _EPOCH) // timedelta(microseconds=1) - 1, 0)
