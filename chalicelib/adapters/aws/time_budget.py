"""The time in which a Lambda function may call AWS, so that it can still respond before Lambda ends it."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

RESPONSE_RESERVE_S = 1.5
"""Time kept for the response itself."""

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit the calls inside the block. `seconds` is the time until Lambda ends the function."""
    token = _deadline.set(time.monotonic() + seconds - RESPONSE_RESERVE_S)
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining_s() -> float:
    """Seconds left for calls to AWS. Infinite outside of `time_limit`."""
    return _deadline.get() - time.monotonic()
