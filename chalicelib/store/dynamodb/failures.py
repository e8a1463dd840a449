"""Which failures of a call mean that DynamoDB gave no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from botocore import exceptions
from botocore.exceptions import ClientError, HTTPClientError

from chalicelib.domain.errors import Unavailable
from chalicelib.store.dynamodb.deadlines import left_s

_UNANSWERED = frozenset(
    {
        "ExpiredTokenException",
        "InternalServerError",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
"""Error codes after which the same call may succeed; an earlier try of the SDK may even have done so."""


@contextmanager
def answered() -> Iterator[None]:
    """Raise `Unavailable` if DynamoDB throttles, fails or cannot be reached within the block, or there is no time."""
    if left_s() <= 0:
        raise Unavailable("DynamoDB took too long to answer: there is no time to ask it more")
    try:
        yield
    except ClientError as failure:
        if not _unanswered(failure):
            raise
        raise Unavailable(f"DynamoDB does not answer: {failure}") from failure
    except (exceptions.ConnectionError, HTTPClientError) as failure:
        raise Unavailable(f"DynamoDB cannot be reached: {failure}") from failure
    except (exceptions.NoCredentialsError, exceptions.CredentialRetrievalError) as failure:
        raise Unavailable(f"there are no credentials for DynamoDB: {failure}") from failure


def _unanswered(failure: ClientError) -> bool:
    status = failure.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or failure.response["Error"]["Code"] in _UNANSWERED
