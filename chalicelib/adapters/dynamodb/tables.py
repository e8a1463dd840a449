"""The two tables, for tests and local endpoints; on AWS a template makes them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from chalicelib.adapters.dynamodb.items import ITEM, SERVER, SESSION, TTL, VIEW
from chalicelib.domain.errors import Unavailable

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls
    from chalicelib.adapters.dynamodb.batches import Pause

POLL_S = 1.0
MOST_POLLS = 60


def create_tables(client: Calls, log_table: str, views_table: str, pause: Pause = time.sleep) -> None:
    """Create both tables and return when they can be used."""
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    log = _table(log_table, "N", SERVER, SESSION) | {"StreamSpecification": stream}
    for table in (log, _table(views_table, "S", VIEW, ITEM)):
        client.call("CreateTable", table)
    for name in (log_table, views_table):
        _await_active(client, name, pause)
        expiry = {"Enabled": True, "AttributeName": TTL}
        client.call("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": expiry})


def _table(name: str, kind: str, hash_key: str, sort_key: str) -> dict[str, Any]:
    """A table with a key of two attributes of one kind."""
    return {
        "TableName": name,
        "KeySchema": [
            {"AttributeName": hash_key, "KeyType": "HASH"},
            {"AttributeName": sort_key, "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": kind} for key in (hash_key, sort_key)],
        "BillingMode": "PAY_PER_REQUEST",
    }


def _await_active(client: Calls, table: str, pause: Pause) -> None:
    for _ in range(MOST_POLLS):
        if client.call("DescribeTable", {"TableName": table})["Table"]["TableStatus"] == "ACTIVE":
            return
        pause(POLL_S)
    raise Unavailable(f"DynamoDB does not make the table {table}")
