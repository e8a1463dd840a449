"""The days that a page covers."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

DAYS: Final = 31
"""Number of days on a page, with or without events."""


@dataclass(frozen=True, slots=True)
class Period:
    """The `DAYS` days up to and including `last`."""

    last: date

    @property
    def first(self) -> date:
        return self.last - timedelta(days=DAYS - 1)

    @property
    def days(self) -> list[date]:
        return [self.first + timedelta(days=number) for number in range(DAYS)]

    @property
    def before(self) -> "Period":
        """The period before this one."""
        return Period(self.first - timedelta(days=1))

    def covers(self, days: Collection[date]) -> bool:
        """Whether any of these days is in the period."""
        return any(self.first <= day <= self.last for day in days)
