"""Create the two tables in an emulator. On AWS the CloudFormation template creates them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from chalicelib.adapters.dynamodb.items import ITEM, SERVER, SESSION, TTL, VIEW
from chalicelib.domain.errors import Unavailable

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.batches import Sleep

POLL_INTERVAL_S = 1.0
MAX_POLLS = 60


def create_tables(
    client: ServiceClient, log_table: str, views_table: str, sleep: Sleep = time.sleep, with_ttl: bool = True
) -> None:
    """Create both tables and wait until they are active. Without `with_ttl` the emulator deletes no expired items."""
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    log = _table_definition(log_table, "N", SERVER, SESSION) | {"StreamSpecification": stream}
    for table in (log, _table_definition(views_table, "S", VIEW, ITEM)):
        client.call("CreateTable", table)
    for name in (log_table, views_table):
        _wait_until_active(client, name, sleep)
        if with_ttl:
            expiry = {"Enabled": True, "AttributeName": TTL}
            client.call("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": expiry})


def _table_definition(name: str, key_type: str, hash_key: str, sort_key: str) -> dict[str, Any]:
    return {
        "TableName": name,
        "KeySchema": [
            {"AttributeName": hash_key, "KeyType": "HASH"},
            {"AttributeName": sort_key, "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": key_type} for key in (hash_key, sort_key)],
        "BillingMode": "PAY_PER_REQUEST",
    }


def _wait_until_active(client: ServiceClient, table: str, sleep: Sleep) -> None:
    for _ in range(MAX_POLLS):
        if client.call("DescribeTable", {"TableName": table})["Table"]["TableStatus"] == "ACTIVE":
            return
        sleep(POLL_INTERVAL_S)
    raise Unavailable(f"the table {table} is not active after {MAX_POLLS * POLL_INTERVAL_S:.0f} seconds")
