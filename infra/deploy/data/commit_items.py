"""Reads stored commits page by page, for maintenance of tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from chalicelib.adapters.dynamodb.items import AT, PREV, SERVER, SESSION, TTL, N

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.items import Item

_HEADER_ATTRIBUTES: Final = {"#server": SERVER, "#session": SESSION, "#at": AT, "#n": N, "#prev": PREV, "#ttl": TTL}


def scan_commits(client: ServiceClient, table: str) -> Iterator[list[Item]]:
    """Pages of the commits of all logs, in no particular order."""
    return _pages(client, "Scan", {"TableName": table})


def query_commits(client: ServiceClient, table: str, server: int) -> Iterator[list[Item]]:
    """Pages of the commits of one log, in order."""
    return _pages(client, "Query", _log_query(table, server))


def query_commit_headers(client: ServiceClient, table: str, server: int) -> Iterator[Item]:
    """The commits of one log, in order, without their events."""
    request = _log_query(table, server)
    request |= {"ProjectionExpression": ", ".join(_HEADER_ATTRIBUTES), "ExpressionAttributeNames": _HEADER_ATTRIBUTES}
    for page in _pages(client, "Query", request):
        yield from page


def is_expired(item: Item, now_s: int) -> bool:
    """Whether the commit is past retention, so that DynamoDB may delete it at any time."""
    return TTL in item and int(item[TTL]["N"]) < now_s


def _log_query(table: str, server: int) -> dict[str, Any]:
    return {
        "TableName": table,
        "KeyConditionExpression": "#server = :server",
        "ExpressionAttributeNames": {"#server": SERVER},
        "ExpressionAttributeValues": {":server": {"N": str(server)}},
        "ConsistentRead": True,
    }


def _pages(client: ServiceClient, operation: str, request: dict[str, Any]) -> Iterator[list[Item]]:
    while True:
        page = client.call(operation, request)
        yield page["Items"]
        if "LastEvaluatedKey" not in page:
            return
        request = {**request, "ExclusiveStartKey": page["LastEvaluatedKey"]}
