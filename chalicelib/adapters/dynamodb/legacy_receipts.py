"""Receipts of version 0.1.0: an item for each idempotency key beside the commit. They expire after a day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chalicelib.adapters.dynamodb.items import ITEM, SESSION, TTL, VIEW
from chalicelib.domain.log.append import RECEIPT_TTL_S, Receipt
from chalicelib.domain.views.record import Checkpoint, checkpoints_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.services.ports import Views

LEGACY_PROJECTORS = tuple(f"project-{number}" for number in range(1, 6))
"""Names of the consumers whose checkpoints show when version 0.1.0 was last in use."""
_MARGIN_S = 3600
"""The last commits of version 0.1.0 may be later than its checkpoint."""


class LegacyReceipts:
    """Implements `Receipts`. Without recent commits of version 0.1.0 it reads nothing more than a log's checkpoints."""

    def __init__(self, client: ServiceClient, views_table: str, views: Views, clock: Callable[[], int]) -> None:
        self._client = client
        self._views_table = views_table
        self._views = views
        self._clock = clock
        self._valid_until_ms: dict[int, int] = {}
        """By server, when the last receipt expires."""

    def receipt(self, server: int, key: str) -> Receipt | None:
        if self._clock() > self._valid_until(server):
            return None
        request = {
            "TableName": self._views_table,
            "Key": {VIEW: {"S": f"{server}/receipt"}, ITEM: {"S": key}},
            "ConsistentRead": True,
        }
        item = self._client.call("GetItem", request).get("Item")
        if item is None:
            return None
        written_us = (int(item[TTL]["N"]) - RECEIPT_TTL_S) * 1_000_000
        return Receipt(item["digest"]["S"], int(item[SESSION]["N"]), written_us)

    def _valid_until(self, server: int) -> int:
        if server not in self._valid_until_ms:
            records = self._views.get(checkpoints_view(server), LEGACY_PROJECTORS).values()
            last_us = max((Checkpoint.from_record(server, r).head.last_event_id for r in records), default=0)
            self._valid_until_ms[server] = last_us // 1000 + (RECEIPT_TTL_S + _MARGIN_S) * 1000
        return self._valid_until_ms[server]
