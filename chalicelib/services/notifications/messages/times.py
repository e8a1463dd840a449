"""Times as text, in the zone and the format of an observer."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from chalicelib.domain import timestamps

_MAX_TIME_CHARS = 200


@dataclass(frozen=True, slots=True)
class MessageTimes:
    """Formats times."""

    zone: ZoneInfo
    time_format: str

    def text(self, time_us: int) -> str:
        """The time in the format of the observer."""
        return self.text_of_seconds(time_us / 1_000_000)

    def text_of_seconds(self, time_s: float) -> str:
        """The same of seconds. Raises like `datetime.fromtimestamp` if there is no such time."""
        local = datetime.fromtimestamp(time_s, UTC).astimezone(self.zone)
        return local.strftime(self.time_format)[:_MAX_TIME_CHARS]

    def clock(self, time_us: int, near_us: int) -> str:
        """Hours and minutes, with the date if it is not that of `near_us`."""
        local = self._local(time_us)
        is_same_day = local.date() == self._local(near_us).date()
        return local.strftime("%H:%M" if is_same_day else "%Y-%m-%d %H:%M")

    def zone_name(self, time_us: int) -> str:
        return self._local(time_us).tzname() or ""

    def _local(self, time_us: int) -> datetime:
        return datetime.fromtimestamp(time_us / 1_000_000, UTC).astimezone(self.zone)


def parse_time(value: object) -> int | None:
    """Microseconds of a time in an event. None if it is not valid, because any publisher can write such an event."""
    try:
        time_us = timestamps.parse(value)
    except ValueError:
        return None
    # So that it has a local time in every zone.
    return time_us if 0 <= time_us < (timestamps.MAX_TIMESTAMP_S - 86_400) * 1_000_000 else None
