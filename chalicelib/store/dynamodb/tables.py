"""The two tables, for tests and local endpoints; on AWS a template makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chalicelib.store.dynamodb.items import ITEM, SERVER, SESSION, TTL, VIEW

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

POLL_S = 1
MOST_POLLS = 60


def create_tables(client: DynamoDBClient, log_table: str, views_table: str) -> None:
    """Create both tables and return when they can be used."""
    client.create_table(
        TableName=log_table,
        KeySchema=[{"AttributeName": SERVER, "KeyType": "HASH"}, {"AttributeName": SESSION, "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": SERVER, "AttributeType": "N"},
            {"AttributeName": SESSION, "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )
    client.create_table(
        TableName=views_table,
        KeySchema=[{"AttributeName": VIEW, "KeyType": "HASH"}, {"AttributeName": ITEM, "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": VIEW, "AttributeType": "S"},
            {"AttributeName": ITEM, "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    for table in (log_table, views_table):
        _await_active(client, table)
        client.update_time_to_live(TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL})


def _await_active(client: DynamoDBClient, table: str) -> None:
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": POLL_S, "MaxAttempts": MOST_POLLS})
