"""Locations of logs that can be passed to other processes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chalicelib.services.ports import Log
from tests.torture.checks.stored import MAX_SESSIONS, StoredItem, item_from_dynamodb, item_from_sqlite

if TYPE_CHECKING:
    from chalicelib.adapters.aws.client import Client

REGION = "eu-central-1"


@dataclass(frozen=True, slots=True)
class SqliteStore:
    """A log in a SQLite file."""

    path: Path

    @contextmanager
    def open(self) -> Iterator[Log]:
        from chalicelib.adapters.sqlite.database import Database
        from chalicelib.adapters.sqlite.log import SqliteLog

        database = Database(self.path)
        yield SqliteLog(database)
        database.close()

    def stored_items(self, server: int) -> list[StoredItem]:
        """All items of a log, in the order of their sessions."""
        from chalicelib.adapters.sqlite.database import Database

        database = Database(self.path)
        columns = "place, at, n, prev, req, body, before, by, key, digest, crc"
        rows = database.query(
            f"SELECT {columns} FROM log WHERE place >= ? AND place < ? ORDER BY place",
            (server * MAX_SESSIONS, (server + 1) * MAX_SESSIONS),
        )
        database.close()
        return [item_from_sqlite(row) for row in rows]


@dataclass(frozen=True, slots=True)
class DynamoStore:
    """A log in two DynamoDB tables."""

    endpoint: str
    log_table: str
    views_table: str

    @contextmanager
    def open(self) -> Iterator[Log]:
        from chalicelib.adapters.dynamodb.log import DynamoLog

        with self._client() as client:
            yield DynamoLog(client, self.log_table, self.views_table)

    def stored_items(self, server: int) -> list[StoredItem]:
        """All items of a log, in the order of their sessions."""
        query: dict[str, Any] = {
            "TableName": self.log_table,
            "KeyConditionExpression": "#server = :server",
            "ExpressionAttributeNames": {"#server": "server"},
            "ExpressionAttributeValues": {":server": {"N": str(server)}},
            "ConsistentRead": True,
        }
        items: list[StoredItem] = []
        with self._client() as client:
            while True:
                page = client.call("Query", query)
                items += map(item_from_dynamodb, page["Items"])
                if "LastEvaluatedKey" not in page:
                    return items
                query["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def create_tables(self) -> None:
        from chalicelib.adapters.dynamodb import tables

        with self._client() as client:
            tables.create_tables(client, self.log_table, self.views_table)

    @contextmanager
    def _client(self) -> Iterator["Client"]:
        from chalicelib.adapters.aws.client import DYNAMODB, create_client

        _use_fake_credentials()
        dynamodb = create_client(DYNAMODB, self.endpoint, REGION)
        yield dynamodb
        dynamodb.close()


Store = SqliteStore | DynamoStore


def _use_fake_credentials() -> None:
    """Replace the AWS settings of this process by fake credentials."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }
