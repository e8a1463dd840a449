"""Receipts of version 0.1.0: an item for each idempotency key beside the commit. They expire after a day.

Each append with a new key looks for one, which costs a read unit. A later version can leave that out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chalicelib.adapters.dynamodb.items import ITEM, SESSION, TTL, VIEW
from chalicelib.domain.log.append import RECEIPT_TTL_S, Receipt

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient


class LegacyReceipts:
    """Implements `Receipts`."""

    def __init__(self, client: ServiceClient, views_table: str) -> None:
        self._client = client
        self._views_table = views_table

    def receipt(self, server: int, key: str) -> Receipt | None:
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
