"""Exponential backoff between retries and between polls."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that start at `initial_s` and grow by `factor` with each attempt, up to `max_s`."""

    initial_s: float
    max_s: float = inf
    factor: float = 2.0

    def delay_s(self, attempt: int, jitter: float = 1.0) -> float:
        """Delay after `attempt` earlier delays, so attempt 0 waits `initial_s`.

        The delay is multiplied by `jitter`. Pass `random.random()` for full jitter.
        """
        try:
            delay_s = self.initial_s * self.factor**attempt
        except OverflowError:
            delay_s = self.max_s
        return min(delay_s, self.max_s) * jitter
