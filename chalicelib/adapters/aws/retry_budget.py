"""A budget of retries for all calls of a client, so that retries do not multiply the load on a service in trouble."""

import threading

CAPACITY = 500
RETRY_COST = 5
"""Of a retry. A call that succeeds after retries returns it."""
SUCCESS_GAIN = 1
"""Of a call that succeeds at once. The values are those of the AWS SDKs."""


class RetryBudget:
    """A token bucket. Thread-safe: `_lock` protects `_tokens`."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._tokens = capacity
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Pay for a retry. Returns False if the budget is used up."""
        with self._lock:
            if self._tokens < RETRY_COST:
                return False
            self._tokens -= RETRY_COST
            return True

    def record_success(self, retries: int) -> None:
        """Return the cost of the last retry, or a little if there was none."""
        if not retries and self._tokens >= self._capacity:
            return  # The usual case, without a lock.
        with self._lock:
            self._tokens = min(self._tokens + (RETRY_COST if retries else SUCCESS_GAIN), self._capacity)
