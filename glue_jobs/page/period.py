"""The days that a page is about."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

DAYS: Final = 31
"""So many days are on a page, whether something happened on them or not."""


@dataclass(frozen=True, slots=True)
class Period:
    """The days up to `last`."""

    last: date

    @property
    def first(self) -> date:
        """Where it begins."""
        return self.last - timedelta(days=DAYS - 1)

    @property
    def days(self) -> list[date]:
        """All of its days, in order."""
        return [self.first + timedelta(days=number) for number in range(DAYS)]

    @property
    def before(self) -> "Period":
        """The period that ends where this one begins."""
        return Period(self.first - timedelta(days=1))

    def covers(self, days: Collection[date]) -> bool:
        """Tell whether any of these days is in it."""
        return any(self.first <= day <= self.last for day in days)
