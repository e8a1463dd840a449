"""Load profiles: when in a month jobs start, by hour of the day and day of the week."""

import random
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final, Literal

DAYS = 30
HOURS = DAYS * 24
HOUR_MS = 3_600_000

LoadProfile = Literal["office", "night", "morning", "always"]

_BY_HOUR: Final[dict[LoadProfile, tuple[float, ...]]] = {
    "office": (0.03,) * 6
    + (0.1, 0.4, 1.0, 1.5, 1.7, 1.5, 0.9, 1.2, 1.6, 1.5, 1.2, 0.8, 0.4, 0.25, 0.2, 0.15, 0.1, 0.05),
    "night": (1.2, 2.0, 2.2, 1.6, 0.8, 0.3) + (0.05,) * 16 + (0.3, 0.8),
    "morning": (0.02,) * 4 + (0.6, 1.8, 2.2, 1.4, 0.7, 0.3) + (0.08,) * 14,
    "always": (0.8,) * 7 + (1.0,) * 13 + (0.9,) * 4,
}
_WEEKEND_FACTOR: Final[dict[LoadProfile, float]] = {"office": 0.12, "night": 0.9, "morning": 0.4, "always": 0.8}
SATURDAY = 5


class Month:
    """The 30 days before `end_ms`."""

    def __init__(self, end_ms: int) -> None:
        self.end_ms = end_ms
        self.start_ms = end_ms - HOURS * HOUR_MS
        self._sums = {name: list(accumulate(map(self._weights(name), range(HOURS)))) for name in _BY_HOUR}

    def random_time_ms(self, rng: random.Random, profile: LoadProfile) -> int:
        """A random start time with the distribution of the profile."""
        (hour,) = rng.choices(range(HOURS), cum_weights=self._sums[profile])
        return self.start_ms + hour * HOUR_MS + int(rng.random() * HOUR_MS)

    def day(self, time_ms: int) -> int:
        """The day of the month, starting at 0."""
        return (time_ms - self.start_ms) // (24 * HOUR_MS)

    def _weights(self, name: LoadProfile) -> "_Weights":
        return _Weights(self.start_ms, name)


class _Weights:
    def __init__(self, start_ms: int, name: LoadProfile) -> None:
        self._start_ms = start_ms
        self._name = name

    def __call__(self, hour: int) -> float:
        moment = datetime.fromtimestamp((self._start_ms + hour * HOUR_MS) / 1000, UTC)
        factor = _WEEKEND_FACTOR[self._name] if moment.weekday() >= SATURDAY else 1.0
        return _BY_HOUR[self._name][moment.hour] * factor
