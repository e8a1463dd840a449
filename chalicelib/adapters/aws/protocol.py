"""Calls of AWS: what is asked, and that it may be refused."""

from collections.abc import Mapping
from typing import Any, Protocol

_THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
"""Error codes that ask us to be slower."""
_PASSING = _THROTTLED | {
    "ExpiredTokenException",
    "InternalServerError",
    "PriorRequestNotComplete",
    "ReplicatedWriteConflictException",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "TransactionConflictException",
    "TransactionInProgressException",
}
"""Error codes after which the same call may succeed; an earlier try of it may even have done so."""
_FAILED = 500
"""From this status on it is the service that failed."""


class Calls(Protocol):
    """A service of AWS."""

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """What the service answers. Raises `Refusal` if it says no, `Unavailable` if it gave no answer."""


class Refusal(Exception):
    """The service says no; `code` is its word for why, `answer` all that it says."""

    def __init__(self, operation: str, status: int, code: str, answer: Mapping[str, Any]) -> None:
        super().__init__(f"{operation}: {code or status}: {answer.get('message') or answer.get('Message') or ''}")
        self.status = status
        self.code = code
        self.answer = answer

    @property
    def is_passing(self) -> bool:
        """Whether the same call may succeed a little later."""
        return self.status >= _FAILED or self.code in _PASSING

    @property
    def is_throttling(self) -> bool:
        """Whether we are too fast."""
        return self.code in _THROTTLED
