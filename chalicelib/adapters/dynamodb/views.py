"""The port `Views` on DynamoDB."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.adapters.dynamodb.batches import MOST_KEYS, MOST_WRITES, Pause, delete_all, get_all
from chalicelib.adapters.dynamodb.items import ITEM, TO, VIEW, item_from_record, record_from_item, record_key
from chalicelib.domain.views.record import Change, Record

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls

THREADS = 8
"""So many puts at the same time."""
FIRST_PAGE_RECORDS = 25
PAGE_GROWTH = 4
MOST_PAGE_RECORDS = 6400
"""Who wants only the first record of a range pays for a small page; who goes on gets larger ones, up to a megabyte."""
DROP_RECORDS = 250

# Our names are reserved words: in expressions every one of them stands behind a "#".
_KEY_NAMES = {"#view": VIEW, "#item": ITEM}
_OF_VIEW = "#view = :view"
_BEFORE = f"{_OF_VIEW} AND #item < :end"
_BETWEEN = f"{_OF_VIEW} AND #item BETWEEN :start AND :end"
_IS_NEW = "attribute_not_exists(#item)"
_IS_AS_IT_WAS = "#to = :was"
_REFUSED = "ConditionalCheckFailedException"


class DynamoViews:
    """The views of all servers in one table; threads may share it."""

    def __init__(self, client: Calls, table: str, pause: Pause = time.sleep, threads: int = THREADS) -> None:
        self._client = client
        self._table = table
        self._pause = pause
        # It starts threads only when it has work for them.
        self._threads = ThreadPoolExecutor(threads)

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """Those of the items that there are, by item."""
        keys = [record_key(view, item) for item in dict.fromkeys(items)]
        found: dict[str, Record] = {}
        for start in range(0, len(keys), MOST_KEYS):
            some = get_all(self._client, self._table, keys[start : start + MOST_KEYS], True, self._pause)
            found.update((record.item, record) for record in map(record_from_item, some))
        return found

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        """Records with `start <= item < end` in the order of their items' bytes, or backwards, fetched page by page."""
        if start >= end:
            return
        query = self._query(view, start, end)
        query["ScanIndexForward"] = not backwards
        query["Limit"] = FIRST_PAGE_RECORDS
        while True:
            page = self._client.call("Query", query)
            yield from (record_from_item(item) for item in page["Items"] if item[ITEM]["S"] != end)
            if "LastEvaluatedKey" not in page:
                return
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]
            query["Limit"] = min(query["Limit"] * PAGE_GROWTH, MOST_PAGE_RECORDS)

    def put(self, changes: Sequence[Change]) -> list[Change]:
        """Write each change by itself; return those refused because the stored record is not what it was."""
        if len(changes) <= 1:
            return [change for change in changes if not self._put(change)]
        writes = [self._threads.submit(self._put, change) for change in changes]
        wait(writes)
        return [change for change, write in zip(changes, writes, strict=True) if not write.result()]

    def drop(self, view: str) -> int:
        """Forget some records of a view; how many, 0 when none are left."""
        query = {
            "TableName": self._table,
            "KeyConditionExpression": _OF_VIEW,
            "ProjectionExpression": "#view, #item",
            "ExpressionAttributeNames": _KEY_NAMES,
            "ExpressionAttributeValues": {":view": {"S": view}},
            "Limit": DROP_RECORDS,
            "ConsistentRead": True,
        }
        keys = self._client.call("Query", query)["Items"]
        for start in range(0, len(keys), MOST_WRITES):
            delete_all(self._client, self._table, keys[start : start + MOST_WRITES], self._pause)
        return len(keys)

    def _query(self, view: str, start: str, end: str) -> dict[str, Any]:
        """A range's query. A key condition has no place for two comparisons, and no key is empty text."""
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

    def _put(self, change: Change) -> bool:
        """Write the change; False if it is refused."""
        try:
            self._client.call("PutItem", _put_of(self._table, change))
        except Refusal as refusal:
            if refusal.code != _REFUSED:
                raise
            # After a lost answer the client's own repeat meets our item: that is success.
            held = refusal.answer.get("Item")
            return held is not None and record_from_item(held) == change.record
        return True


def _put_of(table: str, change: Change) -> dict[str, Any]:
    put: dict[str, Any] = {
        "TableName": table,
        "Item": item_from_record(change.record),
        "ConditionExpression": _IS_NEW,
        "ExpressionAttributeNames": {"#item": ITEM},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if change.was is not None:
        put["ConditionExpression"] = _IS_AS_IT_WAS
        put["ExpressionAttributeNames"] = {"#to": TO}
        put["ExpressionAttributeValues"] = {":was": {"N": str(change.was)}}
    return put
