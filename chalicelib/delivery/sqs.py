"""The port `Outbox` on SQS: a FIFO queue for what waits, records for what is parked and what was delivered."""

from collections.abc import Sequence
from typing import Any

from chalicelib.domain.deliveries import Delivery, Parked


def sqs_client() -> Any:
    """A client."""
    raise NotImplementedError


class SqsOutbox:
    """The outbox of all servers in one queue."""

    def __init__(self, client: Any, queue_url: str, views: Any) -> None:
        self._client = client
        self._queue_url = queue_url
        self._views = views

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Keep them durably, in this order; those that were put before are not put again."""
        raise NotImplementedError

    def parked(self, server: int, observer: str, after: str, most: int) -> list[Parked]:
        """Those that nobody tries any more, after the one with the id `after`, in order of their ids."""
        raise NotImplementedError

    def retry(self, server: int, observer: str, ids: Sequence[str]) -> int:
        """Try parked ones again, from the first of five tries; how many there were."""
        raise NotImplementedError

    def counts(self, server: int, observer: str) -> dict[str, int]:
        """How many are waiting, parked and sent, as far as that is known."""
        raise NotImplementedError
