"""Parsing and formatting of timestamps."""

import calendar
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.domain import timestamps

FIRST_US = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z"""
LAST_US = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z"""
ZONES = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.integers(FIRST_US, LAST_US))
@example(FIRST_US)
@example(LAST_US)
@example(-1)
def test_parse_is_inverse_of_iso(time_us: int) -> None:
    text = timestamps.iso(time_us)
    assert len(text) == 27
    assert timestamps.parse(text) == time_us
    assert timestamps.parse({"s": time_us // 1_000_000, "us": time_us % 1_000_000}) == time_us


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=ZONES))
def test_parse_with_zone_converts_to_utc(moment: datetime) -> None:
    expected = calendar.timegm(moment.astimezone(UTC).timetuple()) * 1_000_000 + moment.microsecond
    assert timestamps.parse(moment.isoformat()) == expected


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_parse_without_zone_assumes_utc(moment: datetime) -> None:
    assert timestamps.parse(moment.isoformat()) == timestamps.parse(f"{moment.isoformat()}Z")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2016-11-04T11:07:36.606001Z", "2016-11-04T11:07:36.606001Z"),
        ("2016-11-04T11:07:36.606Z", "2016-11-04T11:07:36.606000Z"),
        ("2016-11-04T11:07:36", "2016-11-04T11:07:36.000000Z"),
        ("2016-11-04T12:07:36.606001+01:00", "2016-11-04T11:07:36.606001Z"),
        ("2016-11-04T05:37:36-05:30", "2016-11-04T11:07:36.000000Z"),
        ("2016-11-04 11:07:36Z", "2016-11-04T11:07:36.000000Z"),
        ("2016-11-04", "2016-11-04T00:00:00.000000Z"),
        ("20161104T110736Z", "2016-11-04T11:07:36.000000Z"),
        ("2016-11-04T11:07:36.606001999Z", "2016-11-04T11:07:36.606001Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ({"s": 0, "us": 0}, "1970-01-01T00:00:00.000000Z"),
        ({"s": -1, "us": 999_999}, "1969-12-31T23:59:59.999999Z"),
        ({"s": 1_478_257_656, "us": 606_001}, "2016-11-04T11:07:36.606001Z"),
        ({"s": FIRST_US // 1_000_000, "us": 0}, "0001-01-01T00:00:00.000000Z"),
        ({"s": LAST_US // 1_000_000, "us": 999_999}, "9999-12-31T23:59:59.999999Z"),
        ({"s": -1.0, "us": 5e5}, "1969-12-31T23:59:59.500000Z"),
    ],
)
def test_parse_accepts_all_formats(value: object, expected: str) -> None:
    assert timestamps.iso(timestamps.parse(value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "now",
        "2016-11-04T",
        "2016-13-04T11:07:36Z",
        "2016-02-30T11:07:36Z",
        "2016-11-04T25:07:36Z",
        "2016-11-04T11:07:60Z",
        "2016-11-04T11:07:36ZZ",
        "2016-11-04T11:07:36+25:00",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "-0001-01-01T00:00:00Z",
        "1478257656",
        1_478_257_656,
        1.5,
        True,
        None,
        [],
        {},
        {"s": 1},
        {"us": 1},
        {"s": 1, "us": 1_000_000},
        {"s": 1, "us": -1},
        {"s": 1.5, "us": 0},
        {"s": 0, "us": 1.5},
        {"s": float("inf"), "us": 0},
        {"s": "1", "us": 0},
        {"s": True, "us": 0},
        {"s": 0, "us": False},
        {"s": 0, "us": 0, "ns": 0},
    ],
)
def test_parse_invalid_value_raises_value_error(value: object) -> None:
    with pytest.raises(ValueError, match="a time is ISO-8601"):
        timestamps.parse(value)


@pytest.mark.parametrize(
    "value",
    [
        "0001-01-01T00:00:00+00:01",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59.999999-00:01",
        {"s": FIRST_US // 1_000_000 - 1, "us": 999_999},
        {"s": LAST_US // 1_000_000 + 1, "us": 0},
        {"s": 10**30, "us": 0},
        {"s": -(10**30), "us": 0},
    ],
)
def test_parse_outside_calendar_raises_value_error(value: object) -> None:
    with pytest.raises(ValueError, match="a time must be between the years 1 and 9999"):
        timestamps.parse(value)
