"""The interface of an AWS service client, and the error that it raises."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol

_THROTTLING_CODES = frozenset(
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
_RETRYABLE_CODES = _THROTTLING_CODES | {
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
"""The same call may succeed later. It may even have succeeded already."""


class ServiceClient(Protocol):
    """Calls the operations of one AWS service."""

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Raises `ServiceError` if the service rejects the call, `Unavailable` if it did not respond."""


class ServiceError(Exception):
    """An error response. `code` is the error code of AWS, `response` the parsed body.

    `request_id` identifies the call for AWS support. It is empty if a proxy answered instead of the service.
    """

    def __init__(
        self, operation: str, status: int, code: str, response: Mapping[str, Any], request_id: str = ""
    ) -> None:
        message = response.get("message") or response.get("Message") or ""
        suffix = f" (request id {request_id})" if request_id else ""
        super().__init__(f"{operation}: {code or status}: {message}{suffix}")
        self.operation = operation
        self.request_id = request_id
        self.status = status
        self.code = code
        self.response = response

    @property
    def is_retryable(self) -> bool:
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR or self.code in _RETRYABLE_CODES

    @property
    def is_throttling(self) -> bool:
        return self.code in _THROTTLING_CODES
