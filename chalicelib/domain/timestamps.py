"""Timestamps as whole microseconds since 1970 UTC."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated

from pydantic import BeforeValidator

from chalicelib.domain.json_schema import closed_object, named_schema
from chalicelib.domain.model import is_whole_number

MAX_TIMESTAMP_S = 253_402_300_799
"""The last second of the year 9999."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_LENGTH = 40
"""Enough for nanoseconds and a zone. Python would accept any number of digits."""
_EXPECTED = 'a time is ISO-8601, such as "2016-11-04T11:07:36.606Z", or {"s": seconds, "us": microseconds}'


def iso(time_us: int) -> str:
    """ISO-8601 with microseconds: 2016-11-04T11:07:36.606001Z."""
    seconds, microseconds = divmod(time_us, 1_000_000)
    return f"{_iso_seconds(seconds)}.{microseconds:06}Z"


@lru_cache(maxsize=256)
def _iso_seconds(time_s: int) -> str:
    """Cached, because most events are formatted together with others of the same second."""
    return (_EPOCH + timedelta(seconds=time_s)).isoformat()[:19]


def iso_with_space(time_us: int) -> str:
    """The format of push jobs: 2014-07-10 05:17:44.995958Z."""
    return iso(time_us).replace("T", " ")


def parse(value: object) -> int:
    """Parse ISO-8601 (UTC unless it names a zone) or `{"s":…,"us":…}`."""
    match value:
        case str():
            return _from_iso(value)
        case {"s": s, "us": us, **rest} if (
            not rest and is_whole_number(s) and is_whole_number(us) and 0 <= us < 1_000_000
        ):
            return _check_range(int(s) * 1_000_000 + int(us))
        case _:
            raise ValueError(_EXPECTED)


def _from_iso(text: str) -> int:
    if len(text) > _MAX_LENGTH:
        raise ValueError(_EXPECTED)
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        time_us = (time - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError) as error:
        raise ValueError(_EXPECTED) from error
    return _check_range(time_us)


def _check_range(time_us: int) -> int:
    try:
        iso(time_us)
    except OverflowError as error:
        raise ValueError("a time must be between the years 1 and 9999") from error
    return time_us


Timestamp = Annotated[
    int,
    BeforeValidator(parse),
    named_schema(
        "GivenTime",
        {
            "description": "A time in ISO-8601, or as seconds since 1970 and microseconds.",
            "anyOf": [
                {"type": "string", "format": "date-time"},
                closed_object(
                    s={"type": "integer", "minimum": -62_135_596_800, "maximum": MAX_TIMESTAMP_S},
                    us={"type": "integer", "minimum": 0, "maximum": 999_999},
                ),
            ],
        },
    ),
]
