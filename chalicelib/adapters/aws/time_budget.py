"""Deadlines: until when a request may call AWS, so that there is time left to say that it does not answer."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SPARE_S = 1.5
"""What the answer itself takes at most."""

_until: ContextVar[float] = ContextVar("until", default=math.inf)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Whoever asks within the block has an answer, or none, before the function is ended in so many seconds."""
    token = _until.set(time.monotonic() + seconds - SPARE_S)
    try:
        yield
    finally:
        _until.reset(token)


def left_s() -> float:
    """How long there is to ask; infinite for those who have all the time."""
    return _until.get() - time.monotonic()
