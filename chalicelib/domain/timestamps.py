"""Times, to the microsecond, as whole numbers of microseconds since 1970 UTC."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BeforeValidator

from chalicelib.domain.model import is_whole

LAST_S = 253_402_300_799
"""The last second of the year 9999."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST = 40
"""With nanoseconds and a zone; digits without end are no time, though Python reads some of them."""
_EXPECTED = 'a time is ISO-8601, such as "2016-11-04T11:07:36.606Z", or {"s": seconds, "us": microseconds}'


def iso(time_us: int) -> str:
    """The time in ISO-8601 with six digits: 2016-11-04T11:07:36.606001Z."""
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds")[:26] + "Z"


def spaced(time_us: int) -> str:
    """The time as push-jobs writes it: 2014-07-10 05:17:44.995958Z."""
    return iso(time_us).replace("T", " ")


def parse(value: object) -> int:
    """The time written as ISO-8601 (UTC unless it names a zone) or as `{"s":…,"us":…}`."""
    match value:
        case str():
            return _from_iso(value)
        case {"s": s, "us": us, **rest} if not rest and is_whole(s) and is_whole(us) and 0 <= us < 1_000_000:
            return _within_calendar(int(s) * 1_000_000 + int(us))
        case _:
            raise ValueError(_EXPECTED)


def _from_iso(text: str) -> int:
    if len(text) > _LONGEST:
        raise ValueError(_EXPECTED)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        time_us = (moment - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError) as failure:
        raise ValueError(_EXPECTED) from failure
    return _within_calendar(time_us)


def _within_calendar(time_us: int) -> int:
    try:
        iso(time_us)
    except OverflowError as failure:
        raise ValueError("a time lies between the years 1 and 9999") from failure
    return time_us


Timestamp = Annotated[int, BeforeValidator(parse)]
