"""Stores for the tests: SQLite in a file, DynamoDB as moto in this process and as ministack in another."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from moto import mock_aws

from chalicelib.store.dynamodb.client import dynamodb_client
from chalicelib.store.dynamodb.log import DynamoLog
from chalicelib.store.dynamodb.tables import create_tables
from chalicelib.store.dynamodb.views import DynamoViews
from chalicelib.store.sqlite.database import Database
from chalicelib.store.sqlite.log import SqliteLog
from chalicelib.store.sqlite.views import SCHEMA as VIEWS_SCHEMA
from chalicelib.store.sqlite.views import SqliteViews
from tests.torture import servers
from tests.torture.stores import REGION

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@pytest.fixture
def sqlite_log(tmp_path: Path) -> Iterator[SqliteLog]:
    database = Database(tmp_path / "annals.sqlite")
    yield SqliteLog(database)
    database.close()


@pytest.fixture
def sqlite_views(tmp_path: Path) -> Iterator[SqliteViews]:
    database = Database(tmp_path / "views.sqlite", VIEWS_SCHEMA, durable=False)
    yield SqliteViews(database)
    database.close()


@pytest.fixture(scope="session")
def aws_environment() -> Iterator[None]:
    """Credentials that open nothing, and none of the machine's own settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield


@pytest.fixture(scope="session")
def regional_client(aws_environment: None) -> Iterator["DynamoDBClient"]:  # noqa: ARG001
    """One for all tests on moto: to make a client takes longer than most of them. Without moto it finds nothing."""
    client = dynamodb_client(region=REGION)
    yield client
    client.close()


@pytest.fixture
def moto_client(regional_client: "DynamoDBClient") -> Iterator["DynamoDBClient"]:
    """A client of an empty DynamoDB in this process; only one thread may use it."""
    with mock_aws():
        yield regional_client


@pytest.fixture
def moto_tables(moto_client: "DynamoDBClient") -> "DynamoDBClient":
    """The client, with both tables there."""
    create_tables(moto_client, "log", "views")
    return moto_client


@pytest.fixture
def moto_log(moto_tables: "DynamoDBClient") -> DynamoLog:
    return DynamoLog(moto_tables, "log", "views")


@pytest.fixture
def moto_views(moto_tables: "DynamoDBClient") -> DynamoViews:
    return DynamoViews(moto_tables, "views", threads=1)


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a LocalStack-compatible server that lives as long as the test run."""
    with servers.ministack(tmp_path_factory.mktemp("ministack")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def ministack_client(ministack: str, aws_environment: None) -> Iterator["DynamoDBClient"]:  # noqa: ARG001
    """One client for all tests; threads may share it."""
    client = dynamodb_client(ministack, REGION)
    yield client
    client.close()


@pytest.fixture
def ministack_tables(ministack_client: "DynamoDBClient") -> tuple[str, str]:
    """The names of two empty tables, for the log and for views."""
    suffix = uuid.uuid4().hex
    log_table, views_table = f"log-{suffix}", f"views-{suffix}"
    create_tables(ministack_client, log_table, views_table)
    return log_table, views_table


@pytest.fixture
def ministack_log(ministack_client: "DynamoDBClient", ministack_tables: tuple[str, str]) -> DynamoLog:
    """An empty log in tables of its own."""
    return DynamoLog(ministack_client, *ministack_tables)


@pytest.fixture
def ministack_views(ministack_client: "DynamoDBClient", ministack_tables: tuple[str, str]) -> DynamoViews:
    """Empty views in a table of their own."""
    return DynamoViews(ministack_client, ministack_tables[1])
