"""Receipts of version 0.1.0: an item for each idempotency key beside the commit. They expire after a day.

For a day after the upgrade each append with a new key looks for one, which costs a read unit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chalicelib.adapters.dynamodb.batches import MAX_BATCH_KEYS, Sleep, get_items
from chalicelib.adapters.dynamodb.items import ITEM, SESSION, TTL, record_key
from chalicelib.domain.log.append import RECEIPT_TTL_S, Receipt

if TYPE_CHECKING:
    from collections.abc import Collection

    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.items import Item


class LegacyReceipts:
    """Finds the receipts of version 0.1.0."""

    def __init__(self, client: ServiceClient, views_table: str, sleep: Sleep = time.sleep) -> None:
        self._client = client
        self._views_table = views_table
        self._sleep = sleep

    def receipts(self, server: int, keys: Collection[str]) -> dict[str, Receipt]:
        items = [record_key(f"{server}/receipt", key) for key in dict.fromkeys(keys)]
        receipts: dict[str, Receipt] = {}
        for start in range(0, len(items), MAX_BATCH_KEYS):
            page = items[start : start + MAX_BATCH_KEYS]
            for item in get_items(self._client, self._views_table, page, True, self._sleep):
                receipts[item[ITEM]["S"]] = _receipt_from_item(item)
        return receipts


def _receipt_from_item(item: Item) -> Receipt:
    written_us = (int(item[TTL]["N"]) - RECEIPT_TTL_S) * 1_000_000
    return Receipt(item["digest"]["S"], int(item[SESSION]["N"]), written_us)
