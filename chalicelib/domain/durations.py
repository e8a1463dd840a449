"""Durations as people and JobScheduler clients write them."""

import re
from typing import Annotated

from pydantic import BeforeValidator

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
    """Seconds of `60`, `60s`, `0.5s`, `1h2m3s`, `PT1M` or `P1D`; `infinite` has no end."""
    text = str(value)
    if text == "infinite":
        return float("inf")
    for form in (_PLAIN, _UNITS, _ISO):
        if found := form.fullmatch(text):
            return sum(float(number) * _SECONDS[unit] for unit, number in found.groupdict().items() if number)
    raise ValueError(f"a duration is 60, 60s, 0.5s, 1h2m3s or ISO-8601 such as PT1M, not '{text[:40]}'")


Duration = Annotated[float, BeforeValidator(parse)]
