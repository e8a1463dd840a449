"""Formatting of numbers, durations and names."""

from datetime import date

import pytest

from glue_jobs.page import formatting


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, "–"),  # noqa: RUF001
        (0, "0 s"),
        (0.0002, "< 1 ms"),
        (0.045, "45 ms"),
        (0.0999, "0.1 s"),
        (0.4, "0.4 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (3900, "1 h 05 min"),
        (86_370, "1 d 00 h"),
        (86_400 * 2 + 3600 * 3, "2 d 03 h"),
        (86_400 * 1234, "1,234 d 00 h"),
        (-90, "−1 min 30 s"),  # noqa: RUF001
    ],
)
def test_duration_has_at_most_two_units(seconds: float | None, expected: str) -> None:
    assert formatting.duration(seconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),  # noqa: RUF001
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50.0 %"),
        (0.99999, "99.9 %"),
        (0.00001, "0.1 %"),
        (0.943, "94.3 %"),
    ],
)
def test_share_near_0_or_100_percent_is_not_rounded_to_it(value: float | None, expected: str) -> None:
    assert formatting.share(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(0, "0"), (1234567, "1,234,567"), (6666.7, "6,667")])
def test_number_separates_thousands(value: float, expected: str) -> None:
    assert formatting.number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),  # noqa: RUF001
        ("", "–"),  # noqa: RUF001
        ("a\nb\tc", "a b c"),
        ("a\x00\x1b[31m", "a\ufffd\ufffd[31m"),
        ("evil\u202egpj.exe", "evil\ufffdgpj.exe"),
        ("مهمة", "مهمة"),
        ("$x_1$ <b>", "$x_1$ <b>"),
        (17, "17"),
    ],
)
def test_name_replaces_invisible_characters(value: object, expected: str) -> None:
    assert formatting.name(value) == expected


@pytest.mark.parametrize(
    ("value", "length", "expected"),
    [
        ("abcde", 5, "abcde"),
        ("abcdef", 5, "abcd…"),
        ("abc def", 5, "abc…"),
        ("日本語", 6, "日本語"),
        ("日本語日", 6, "日本…"),
    ],
)
def test_shorten_counts_wide_characters(value: str, length: int, expected: str) -> None:
    assert formatting.shorten(value, length) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (date(2026, 10, 1), date(2026, 10, 31), "1 October – 31 October 2026"),  # noqa: RUF001
        (date(2025, 12, 9), date(2026, 1, 8), "9 December 2025 – 8 January 2026"),  # noqa: RUF001
    ],
)
def test_days_in_one_year_name_the_year_once(first: date, last: date, expected: str) -> None:
    assert formatting.days(first, last) == expected
