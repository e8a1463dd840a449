"""Numbers, durations, times and names as people read them."""

import unicodedata
from bisect import bisect_right
from datetime import date, datetime
from itertools import accumulate
from typing import Final

NOTHING: Final = "\u2013"
LONGEST: Final = 60
"""Longer names are cut; the whole name is in the tooltip."""


def number(value: float | None) -> str:
    """A count."""
    return NOTHING if value is None else f"{value:,.0f}"


def short_number(value: float) -> str:
    """A count on an axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def share(value: float | None) -> str:
    """A ratio; what is not quite all or nothing does not look like it."""
    if value is None:
        return NOTHING
    percent = round(value * 100, 1)
    if 0 < value < 1:
        percent = min(max(percent, 0.1), 99.9)
    return f"{percent:g} %" if percent in (0, 100) else f"{percent:.1f} %"


def duration(seconds: float | None) -> str:
    """Seconds in two units at most."""
    if seconds is None:
        return NOTHING
    if seconds < 0:
        return "\u2212" + duration(-seconds)
    return _short(seconds) if round(seconds) < 60 else _long(seconds)


def day(value: date) -> str:
    """A day of a year that is known."""
    return f"{value.day} {value:%b}"


def days(first: date, last: date) -> str:
    """From one day to another."""
    begin = f"{first.day} {first:%B}" + (f" {first.year}" if first.year != last.year else "")
    return f"{begin} \u2013 {last.day} {last:%B} {last.year}"


def moment(value: datetime | None) -> str:
    """A time, to the minute."""
    return NOTHING if value is None else f"{value:%Y-%m-%d %H:%M}"


def name(value: object) -> str:
    """A name on one line: what cannot be seen has a sign in its place."""
    if value is None or value == "":
        return NOTHING
    return "".join(_visible(character) for character in str(value))


def cut(value: object, length: int = LONGEST) -> str:
    """A name that is not too long."""
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
    """Line breaks and other controls as a sign; marks that change the direction of what follows, too."""
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    is_joiner = character in "\u200c\u200d"
    return "\ufffd" if category in ("Cc", "Cs", "Cn", "Co") or (category == "Cf" and not is_joiner) else character
