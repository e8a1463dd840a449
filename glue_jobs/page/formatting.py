"""Formats numbers, durations, times and names for people."""

import unicodedata
from bisect import bisect_right
from datetime import date, datetime
from itertools import accumulate
from typing import Final

NOTHING: Final = "\u2013"
MAX_NAME_LENGTH: Final = 60
"""Longer names are shortened. The tooltip has the whole name."""


def number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def short_number(value: float) -> str:
    """A count in at most four characters, for an axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def share(value: float | None) -> str:
    """A ratio in percent. Only exact values show as 0 % and 100 %."""
    if value is None:
        return NOTHING
    percent = round(value * 100, 1)
    if 0 < value < 1:
        percent = min(max(percent, 0.1), 99.9)
    return f"{percent:g} %" if percent in (0, 100) else f"{percent:.1f} %"


def duration(seconds: float | None) -> str:
    """A duration in at most two units."""
    if seconds is None:
        return NOTHING
    if seconds < 0:
        return "\u2212" + duration(-seconds)
    return _short(seconds) if round(seconds) < 60 else _long(seconds)


def day(value: date) -> str:
    """A day without its year."""
    return f"{value.day} {value:%b}"


def days(first: date, last: date) -> str:
    """A range of days."""
    begin = f"{first.day} {first:%B}" + (f" {first.year}" if first.year != last.year else "")
    return f"{begin} \u2013 {last.day} {last:%B} {last.year}"


def timestamp(value: datetime | None) -> str:
    """A time in minutes."""
    return NOTHING if value is None else f"{value:%Y-%m-%d %H:%M}"


def name(value: object) -> str:
    """A name on one line, with invisible characters replaced by visible signs."""
    if value is None or value == "":
        return NOTHING
    return "".join(_visible(character) for character in str(value))


def shorten(value: object, length: int = MAX_NAME_LENGTH) -> str:
    """The name, shortened to `MAX_NAME_LENGTH`."""
    whole = name(value)
    ends = list(accumulate(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in whole))
    return whole if ends[-1] <= length else whole[: bisect_right(ends, length - 1)].rstrip() + "…"


def _short(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    if seconds < 0.001:
        return "< 1 ms"
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def _long(seconds: float) -> str:
    whole, minutes, hours = round(seconds), round(seconds / 60), round(seconds / 3600)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{hours // 24:,} d {hours % 24:02} h"


def _visible(character: str) -> str:
    """A sign for line breaks, control characters and marks that change the text direction."""
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    is_joiner = character in "\u200c\u200d"
    return "\ufffd" if category in ("Cc", "Cs", "Cn", "Co") or (category == "Cf" and not is_joiner) else character
