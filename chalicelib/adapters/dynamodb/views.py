"""Views on DynamoDB.

Threads: any thread may use `DynamoViews`. `put` writes several records in parallel, in a thread pool. There are no
locks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.dynamodb.batches import MAX_BATCH_KEYS, MAX_BATCH_WRITES, Sleep, delete_items, get_items
from chalicelib.adapters.dynamodb.items import ITEM, PARTS, TO, VIEW, item_from_record, record_from_item, record_key
from chalicelib.adapters.dynamodb.large_records import is_part, join_item, part_keys, part_prefix, split_item
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.views.record import ConditionalWrite, Record

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.items import Item

WRITE_THREADS = 8
"""Number of concurrent puts."""
FIRST_PAGE_RECORDS = 25
PAGE_GROWTH = 4
MAX_PAGE_RECORDS = 6400
"""Pages grow: reading only the first record of a range is cheap, and long ranges take few calls."""
MAX_DROP_RECORDS = 250
MAX_LARGE_READS = 5
"""How often a large record is read while another process replaces it."""

# The attribute names are reserved words, so expressions use placeholders with a "#".
_KEY_NAMES = {"#view": VIEW, "#item": ITEM}
_VIEW_MATCHES = "#view = :view"
_BEFORE = f"{_VIEW_MATCHES} AND #item < :end"
_BETWEEN = f"{_VIEW_MATCHES} AND #item BETWEEN :start AND :end"
_IS_NEW = "attribute_not_exists(#item)"
_IS_PART = "attribute_not_exists(#to)"
_HAS_EXPECTED_VERSION = "#to = :expected"
_CONDITION_FAILED = "ConditionalCheckFailedException"


class DynamoViews:
    """Implements `Views` with the views of all servers in one table. Thread-safe."""

    def __init__(
        self, client: ServiceClient, table: str, sleep: Sleep = time.sleep, threads: int = WRITE_THREADS
    ) -> None:
        self._client = client
        self._table = table
        self._sleep = sleep
        # The executor starts threads on demand.
        self._threads = ThreadPoolExecutor(threads)

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        stored = self._get([record_key(view, item) for item in dict.fromkeys(items)])
        return {record.item: record for record in map(record_from_item, self._join_parts(stored))}

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        if start >= end:
            return
        query = self._query(view, start, end)
        query["ScanIndexForward"] = not backwards
        query["Limit"] = FIRST_PAGE_RECORDS
        while True:
            page = self._client.call("Query", query)
            items = (item for item in page["Items"] if item[ITEM]["S"] != end and not is_part(item))
            yield from map(record_from_item, self._join_parts(items))
            if "LastEvaluatedKey" not in page:
                return
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]
            query["Limit"] = min(query["Limit"] * PAGE_GROWTH, MAX_PAGE_RECORDS)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        if len(changes) <= 1:
            return [change for change in changes if not self._put(change)]
        writes = [self._threads.submit(self._put, change) for change in changes]
        wait(writes)
        return [change for change, write in zip(changes, writes, strict=True) if not write.result()]

    def delete(self, view: str, items: Sequence[str]) -> None:
        self._delete([record_key(view, item) for item in dict.fromkeys(items)])

    def drop(self, view: str) -> int:
        query = {
            "TableName": self._table,
            "KeyConditionExpression": _VIEW_MATCHES,
            "ProjectionExpression": "#view, #item",
            "ExpressionAttributeNames": _KEY_NAMES,
            "ExpressionAttributeValues": {":view": {"S": view}},
            "Limit": MAX_DROP_RECORDS,
            "ConsistentRead": True,
        }
        keys = self._client.call("Query", query)["Items"]
        self._delete(keys)
        return len(keys)

    def _join_parts(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items of records with their data, without records that another process deletes meanwhile."""
        for item in items:
            if (whole := self._join(item)) is not None:
                yield whole

    def _join(self, item: Item) -> Item | None:
        for _ in range(MAX_LARGE_READS):
            keys = part_keys(item)
            if not keys:
                return item
            parts = self._get(keys)
            if len(parts) == len(keys):
                return join_item(item, parts)
            # Another process has replaced the record, and deleted its parts.
            found = self._get([record_key(item[VIEW]["S"], item[ITEM]["S"])])
            if not found:
                return None
            (item,) = found
        raise Unavailable(f"the record of {item[ITEM]['S'][:200]} is replaced again and again")

    def _get(self, keys: Sequence[Item]) -> list[Item]:
        batches = (keys[start : start + MAX_BATCH_KEYS] for start in range(0, len(keys), MAX_BATCH_KEYS))
        return [item for batch in batches for item in get_items(self._client, self._table, batch, True, self._sleep)]

    def _delete(self, keys: Sequence[Item]) -> None:
        for start in range(0, len(keys), MAX_BATCH_WRITES):
            delete_items(self._client, self._table, keys[start : start + MAX_BATCH_WRITES], self._sleep)

    def _query(self, view: str, start: str, end: str) -> dict[str, Any]:
        """The query of a range.

        A key condition allows one comparison, so a range is BETWEEN, whose end is inclusive. Its start must not be
        empty.
        """
        query: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": _BETWEEN if start else _BEFORE,
            "ExpressionAttributeNames": _KEY_NAMES,
            "ExpressionAttributeValues": {":view": {"S": view}, ":end": {"S": end}},
            "ConsistentRead": True,
        }
        if start:
            query["ExpressionAttributeValues"] = {**query["ExpressionAttributeValues"], ":start": {"S": start}}
        return query

    def _put(self, change: ConditionalWrite) -> bool:
        """Write the record. Returns False if its version is not the expected one."""
        item, parts = split_item(item_from_record(change.record, change.expires_s))
        for part in parts:
            self._client.call("PutItem", {"TableName": self._table, "Item": part})
        try:
            self._client.call("PutItem", _put_request(self._table, item, change.expected_version))
        except ServiceError as error:
            if error.code != _CONDITION_FAILED:
                raise
            # A retry after a lost response finds our own item: that is success.
            stored = error.response.get("Item")
            if stored is not None and parts:
                return part_keys(stored) == part_keys(item)
            return stored is not None and PARTS not in stored and record_from_item(stored) == change.record
        if parts:
            self._delete_earlier_parts(change.record)
        return True

    def _delete_earlier_parts(self, record: Record) -> None:
        """Delete the parts of earlier versions of a large record."""
        prefix = part_prefix(record.item)
        query = self._query(record.view, prefix, f"{prefix}{record.version:018d}")
        query["ProjectionExpression"] = "#view, #item"
        # Other records may have a name in this range.
        query["FilterExpression"] = _IS_PART
        query["ExpressionAttributeNames"] = {**_KEY_NAMES, "#to": TO}
        while True:
            page = self._client.call("Query", query)
            self._delete(page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def _put_request(table: str, item: Item, expected_version: int | None) -> dict[str, Any]:
    put: dict[str, Any] = {
        "TableName": table,
        "Item": item,
        "ConditionExpression": _IS_NEW,
        "ExpressionAttributeNames": {"#item": ITEM},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if expected_version is not None:
        put["ConditionExpression"] = _HAS_EXPECTED_VERSION
        put["ExpressionAttributeNames"] = {"#to": TO}
        put["ExpressionAttributeValues"] = {":expected": {"N": str(expected_version)}}
    return put
