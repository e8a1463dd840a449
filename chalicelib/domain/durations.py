"""Parsing and formatting of durations."""

import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from chalicelib.domain.json_schema import NAMED_SCHEMA, JsonSchema, pattern_of

MAX_SECONDS = 10**12
_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_PLAIN = re.compile(rf"(?P<s>{_NUMBER})s?", re.ASCII)
_UNITS = re.compile(rf"(?=\d)(?:(?P<h>\d{{1,9}})h)?(?:(?P<m>\d{{1,9}})m)?(?:(?P<s>{_NUMBER})s)?", re.ASCII)
_ISO = re.compile(
    rf"P(?=[\dT])(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?=\d)(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse(value: object) -> float:
    """Seconds of a number, or of a text such as `60`, `60s`, `0.5s`, `1h2m3s`, `PT1M`, `P1D` or `infinite`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_SECONDS:
        return float(value)
    text = str(value)
    if text == "infinite":
        return float("inf")
    for form in (_PLAIN, _UNITS, _ISO):
        if match := form.fullmatch(text):
            return sum(float(number) * _SECONDS[unit] for unit, number in match.groupdict().items() if number)
    raise ValueError(f"a duration is 60, 60s, 0.5s, 1h2m3s or ISO-8601 such as PT1M, not '{text[:40]}'")


def iso(seconds: float) -> str:
    """The duration in ISO-8601, such as P30D, PT1H30M or PT0.5S, or `infinite`."""
    if seconds == float("inf"):
        return "infinite"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    time = "".join(f"{number:g}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (rest, "S")) if number)
    date = f"{days}D" if days else ""
    return f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"


DURATION_SCHEMA: JsonSchema = {
    "type": "string",
    "description": "`60`, `60s`, `0.5s`, `1h2m3s`, ISO-8601 such as `PT1M`, or `infinite`.",
    "pattern": pattern_of(_PLAIN, _UNITS, _ISO, "infinite"),
    "examples": ["0.5s"],
}


def duration_schema(min_s: float = 0, **restrictions: JsonSchema) -> WithJsonSchema:
    """Annotation for durations: a text with `restrictions`, or in JSON also a number of seconds."""
    seconds: JsonSchema = {"type": "number", "minimum": min_s, "exclusiveMaximum": MAX_SECONDS}
    return WithJsonSchema({"anyOf": [{NAMED_SCHEMA: {"Duration": DURATION_SCHEMA}, **restrictions}, seconds]})


Duration = Annotated[float, BeforeValidator(parse), duration_schema()]
