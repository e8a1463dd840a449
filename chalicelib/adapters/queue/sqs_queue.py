"""The operations of an SQS queue that Annals uses."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from chalicelib.adapters.aws.protocol import ServiceClient, ServiceError
from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.domain.errors import Unavailable

MAX_BATCH = 10
"""The limit of SQS for messages per call."""
MAX_VISIBILITY_TIMEOUT_S = 11 * 3600
"""SQS allows twelve hours, counted from the receipt of the message."""


class SqsQueue:
    """One queue. Every method raises `Unavailable` if SQS rejects the call or does not answer. Thread-safe."""

    def __init__(self, connect: Callable[[], ServiceClient], url: str) -> None:
        self._connect = connect
        self._url = url

    @cached_property
    def _client(self) -> ServiceClient:
        """Created on first use, because most functions send nothing."""
        return self._connect()

    def call(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        """Perform an operation on this queue."""
        try:
            return self._client.call(operation, {"QueueUrl": self._url, **params})
        except ServiceError as error:
            raise Unavailable(f"SQS rejected {operation}: {shorten_reason(error.code)}") from error

    def postpone(self, receipts: Sequence[str], delay_s: float) -> None:
        """Hide received messages of one group, in order, until the queue delivers them again after `delay_s`."""
        timeout_s = math.ceil(min(delay_s, MAX_VISIBILITY_TIMEOUT_S))
        for start in range(0, len(receipts), MAX_BATCH):
            entries = [
                {"Id": str(index), "ReceiptHandle": receipt, "VisibilityTimeout": timeout_s}
                for index, receipt in enumerate(receipts[start : start + MAX_BATCH])
            ]
            self.call("ChangeMessageVisibilityBatch", {"Entries": entries})
