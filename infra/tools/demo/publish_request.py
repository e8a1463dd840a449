"""Publish requests, the building blocks of the demo data."""

import math
import random
from typing import Any, NamedTuple

from chalicelib.domain.log.append import encode_within_limits
from chalicelib.domain.vocabularies import VOCABULARIES


class PublishRequest(NamedTuple):
    """Events that a publisher sends in one request."""

    at_ms: int
    texts: tuple[str, ...]
    """Each event as the log stores it."""


Lifecycle = list[PublishRequest]
"""All requests about one job, job set, order or push job, in order."""


def publish_request(vocabulary: str, at_ms: int, *events: dict[str, Any]) -> PublishRequest:
    """Build a request with events of a vocabulary. The vocabulary validates them."""
    new_event = VOCABULARIES[vocabulary].new_event
    return PublishRequest(at_ms, encode_within_limits([new_event(event) for event in events]))


def random_duration_ms(rng: random.Random, median_s: float, spread: float) -> int:
    """A log-normal duration: mostly near the median, sometimes much longer."""
    return max(int(median_s * 1000 * math.exp(rng.gauss(0.0, spread))), 20)
