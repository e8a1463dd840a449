"""Commits as a table keeps them, read page by page: for those who look after tables, not at events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from chalicelib.adapters.dynamodb.items import AT, PREV, SERVER, SESSION, TTL, N

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls
    from chalicelib.adapters.dynamodb.items import Item

_OUTLINE: Final = {"#server": SERVER, "#session": SESSION, "#at": AT, "#n": N, "#prev": PREV, "#ttl": TTL}


def of_all(client: Calls, table: str) -> Iterator[list[Item]]:
    """The commits of all logs, in no particular order."""
    return _pages(client, "Scan", {"TableName": table})


def of_log(client: Calls, table: str, server: int) -> Iterator[list[Item]]:
    """The commits of one log, in order."""
    return _pages(client, "Query", _one_log(table, server))


def outlines(client: Calls, table: str, server: int) -> Iterator[Item]:
    """The commits of one log, in order, without their events."""
    request = _one_log(table, server)
    request |= {"ProjectionExpression": ", ".join(_OUTLINE), "ExpressionAttributeNames": _OUTLINE}
    for page in _pages(client, "Query", request):
        yield from page


def is_expired(item: Item, now_s: int) -> bool:
    """Whether DynamoDB may delete the commit any time."""
    return TTL in item and int(item[TTL]["N"]) < now_s


def _one_log(table: str, server: int) -> dict[str, Any]:
    return {
        "TableName": table,
        "KeyConditionExpression": "#server = :server",
        "ExpressionAttributeNames": {"#server": SERVER},
        "ExpressionAttributeValues": {":server": {"N": str(server)}},
        "ConsistentRead": True,
    }


def _pages(client: Calls, operation: str, request: dict[str, Any]) -> Iterator[list[Item]]:
    while True:
        page = client.call(operation, request)
        yield page["Items"]
        if "LastEvaluatedKey" not in page:
            return
        request = {**request, "ExclusiveStartKey": page["LastEvaluatedKey"]}
