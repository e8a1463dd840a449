"""What stories are made of: what is told at which time, in one request."""

import math
import random
from typing import Any, NamedTuple

from chalicelib.domain.log.append import encoded
from chalicelib.domain.vocabularies import VOCABULARIES


class Told(NamedTuple):
    """Events that a publisher sends together."""

    at_ms: int
    texts: tuple[str, ...]
    """Each as the log keeps it."""


Story = list[Told]
"""All that is told about one job, set, order or push job, in order."""


def told(vocabulary: str, at_ms: int, *own: dict[str, Any]) -> Told:
    """Events in the words of a vocabulary, checked by it."""
    new_event = VOCABULARIES[vocabulary].new_event
    return Told(at_ms, encoded([new_event(one) for one in own]))


def some_ms(chance: random.Random, median_s: float, spread: float) -> int:
    """How long something takes: mostly about the median, now and then much longer."""
    return max(int(median_s * 1000 * math.exp(chance.gauss(0.0, spread))), 20)
