"""Parsing and formatting of durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from chalicelib.domain import durations
from chalicelib.domain.durations import Duration


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_parse_adds_hours_minutes_and_seconds(hours: int, minutes: int, seconds: int) -> None:
    expected = float(hours * 3600 + minutes * 60 + seconds)
    if max(hours, minutes) < 10**9:
        assert durations.parse(f"{hours}h{minutes}m{seconds}s") == expected
        assert durations.parse(f"PT{hours}H{minutes}M{seconds}S") == expected
    assert durations.parse(f"{seconds}") == durations.parse(f"{seconds}s") == float(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("60", 60.0),
        ("60s", 60.0),
        ("0.5", 0.5),
        ("0.5s", 0.5),
        ("1h", 3600.0),
        ("90m", 5400.0),
        ("1m30s", 90.0),
        ("1h30s", 3630.0),
        ("1m0.5s", 60.5),
        ("PT1M", 60.0),
        ("PT1H30M", 5400.0),
        ("P1D", 86400.0),
        ("P1DT1S", 86401.0),
        ("PT0.5S", 0.5),
        ("pt1m", 60.0),
        ("infinite", float("inf")),
    ],
)
def test_parse_accepts_all_formats(text: str, seconds: float) -> None:
    assert TypeAdapter[float](Duration).validate_python(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "s", "-1", "-1s", "+1", "1 s", " 1", "1\n", ".1", ".1s", "1.", "1d", "1w", "1e3", "0x10"),
        *("nan", "inf", "Infinity", "infinity", "1h2", "1s2m", "1h1h", "1,5s", "60S", "1H", "٣", "1_000"),
        *("P", "PT", "P1", "P1M", "P1Y", "P1W", "PT1D", "P1DT", "PT1M1H", "PT-1S", "1" * 13),
    ],
)
def test_parse_invalid_text_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="a duration is 60, 60s"):
        durations.parse(text)


def test_parse_error_truncates_long_text() -> None:
    with pytest.raises(ValueError, match=r"not 'x{40}'$"):
        durations.parse("x" * 1_000_000)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "PT0S"),
        (0.5, "PT0.5S"),
        (90, "PT1M30S"),
        (3600, "PT1H"),
        (86_400, "P1D"),
        (30 * 86_400, "P30D"),
        (400 * 86_400 + 5_401, "P400DT1H30M1S"),
        (float("inf"), "infinite"),
    ],
)
def test_iso_is_inverse_of_parse(seconds: float, text: str) -> None:
    assert (durations.iso(seconds), durations.parse(text)) == (text, seconds)
