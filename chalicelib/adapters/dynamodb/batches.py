"""BatchGetItem and BatchWriteItem, repeated until DynamoDB has processed all items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from chalicelib.domain.backoff import Backoff
from chalicelib.domain.errors import Unavailable

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.items import Item

T = TypeVar("T")

MAX_BATCH_KEYS = 100
"""Limit of BatchGetItem."""
MAX_BATCH_WRITES = 25
"""Limit of BatchWriteItem."""
BACKOFF: Final = Backoff(initial_s=0.05)
MAX_ATTEMPTS_WITHOUT_PROGRESS = 7
"""Takes about 6 seconds with `BACKOFF`."""

Sleep = Callable[[float], None]
"""Waits for a number of seconds."""


def get_items(client: ServiceClient, table: str, keys: Sequence[Item], consistent: bool, sleep: Sleep) -> list[Item]:
    """Get at most `MAX_BATCH_KEYS` items by distinct keys, in any order. Missing items are left out."""
    items: list[Item] = []

    def get(pending: Sequence[Item]) -> Sequence[Item]:
        request = {table: {"Keys": pending, "ConsistentRead": consistent}}
        response = client.call("BatchGetItem", {"RequestItems": request})
        items.extend(response["Responses"].get(table, []))
        unprocessed: dict[str, Any] = response.get("UnprocessedKeys", {})
        return unprocessed[table]["Keys"] if table in unprocessed else []

    if keys:
        _repeat_until_processed(get, keys, sleep)
    return items


def delete_items(client: ServiceClient, table: str, keys: Sequence[Item], sleep: Sleep) -> None:
    """Delete at most `MAX_BATCH_WRITES` items by distinct keys."""

    def delete(pending: Sequence[Item]) -> Sequence[Item]:
        requests = [{"DeleteRequest": {"Key": key}} for key in pending]
        response = client.call("BatchWriteItem", {"RequestItems": {table: requests}})
        unprocessed: dict[str, Any] = response.get("UnprocessedItems", {})
        return [request["DeleteRequest"]["Key"] for request in unprocessed.get(table, [])]

    if keys:
        _repeat_until_processed(delete, keys, sleep)


def _repeat_until_processed(send: Callable[[Sequence[T]], Sequence[T]], pending: Sequence[T], sleep: Sleep) -> None:
    """Call `send` with the items that it left unprocessed, because of the response size or of throttling."""
    without_progress = 0
    while unprocessed := send(pending):
        without_progress = without_progress + 1 if len(unprocessed) == len(pending) else 0
        if without_progress == MAX_ATTEMPTS_WITHOUT_PROGRESS:
            raise Unavailable(
                f"DynamoDB is temporarily unavailable: it left {len(unprocessed)} items of a batch unprocessed"
            )
        sleep(BACKOFF.delay_s(without_progress))
        pending = unprocessed
