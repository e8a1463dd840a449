"""Where the log of a run is, in a form that can be handed to another process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chalicelib.services.ports import Log

if TYPE_CHECKING:
    from chalicelib.adapters.aws.client import Client

REGION = "eu-central-1"


@dataclass(frozen=True, slots=True)
class SqliteStore:
    """A log in a file."""

    path: Path

    @contextmanager
    def opened(self) -> Iterator[Log]:
        """The log, for this process."""
        from chalicelib.adapters.sqlite.database import Database
        from chalicelib.adapters.sqlite.log import SqliteLog

        database = Database(self.path)
        yield SqliteLog(database)
        database.close()


@dataclass(frozen=True, slots=True)
class DynamoStore:
    """A log in two tables behind an endpoint."""

    endpoint: str
    log_table: str
    views_table: str

    @contextmanager
    def opened(self) -> Iterator[Log]:
        """The log, for this process."""
        from chalicelib.adapters.dynamodb.log import DynamoLog

        with self._client() as client:
            yield DynamoLog(client, self.log_table, self.views_table)

    def create(self) -> None:
        """Make the tables."""
        from chalicelib.adapters.dynamodb.tables import create_tables

        with self._client() as client:
            create_tables(client, self.log_table, self.views_table)

    @contextmanager
    def _client(self) -> Iterator["Client"]:
        from chalicelib.adapters.aws.client import DYNAMODB, client

        _know_nobody()
        opened = client(DYNAMODB, self.endpoint, REGION)
        yield opened
        opened.close()


Store = SqliteStore | DynamoStore


def _know_nobody() -> None:
    """Make this process forget the machine's AWS settings; its credentials open nothing."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }
