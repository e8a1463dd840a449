"""Stores for the tests: SQLite, and DynamoDB on moto in this process and on other emulators."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from chalicelib.adapters.aws.boto3_client import Boto3Client
from chalicelib.adapters.aws.client import DYNAMODB, Client, create_client
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.tables import create_tables
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA as VIEWS_SCHEMA
from chalicelib.adapters.sqlite.views import SqliteViews
from infra.deploy.build.target import DEFAULT_ARCH, TARGETS
from tests.adapters.aws.transports import MotoTransport, RecordingClient, create_test_client
from tests.dynamodb_local import server as dynamodb_local_server
from tests.localstack import server as localstack_server
from tests.torture import servers
from tests.torture.stores import REGION


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
    """Dummy credentials, without the machine's own AWS settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield


@pytest.fixture
def moto_client(aws_environment: None) -> Iterator[RecordingClient]:  # noqa: ARG001
    """A client of an empty DynamoDB in this process; only one thread may use it."""
    with mock_aws():
        yield RecordingClient(create_test_client(MotoTransport(DYNAMODB), DYNAMODB))


@pytest.fixture
def moto_tables(moto_client: RecordingClient) -> RecordingClient:
    """The client, with both tables there."""
    create_tables(moto_client, "log", "views")
    return moto_client


@pytest.fixture
def moto_log(moto_tables: RecordingClient) -> DynamoLog:
    return DynamoLog(moto_tables, "log", "views")


@pytest.fixture
def moto_views(moto_tables: RecordingClient) -> DynamoViews:
    return DynamoViews(moto_tables, "views", threads=1)


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a LocalStack-compatible server that lives as long as the test run."""
    with servers.ministack(tmp_path_factory.mktemp("ministack")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def dynamodb_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a DynamoDB Local that lives as long as the test run."""
    if reason := dynamodb_local_server.missing():
        pytest.skip(reason)
    with servers.dynamodb_local(tmp_path_factory.mktemp("dynamodb-local")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def python_of_lambda() -> Path:
    """A Python of the version that runs the functions on AWS."""
    target = TARGETS[DEFAULT_ARCH]
    python = target.find_python()
    if python is None:
        pytest.skip(f"no {target.runtime} in the path or in pyenv")
    return python


@pytest.fixture(scope="session")
def localstack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a LocalStack that lives as long as the test run."""
    if reason := localstack_server.missing():
        pytest.skip(reason)
    with servers.localstack(tmp_path_factory.mktemp("localstack")) as endpoint:
        yield endpoint


def store_fixtures(
    name: str, endpoint: str, connect: Callable[[str], Client | Boto3Client]
) -> tuple[Any, Any, Any, Any]:
    """The fixtures `<name>_client`, `<name>_tables`, `<name>_log` and `<name>_views` of a DynamoDB.

    `endpoint` is the fixture with its endpoint. One client serves all tests; threads may share it. The log and the
    views of each test are in new tables.
    """

    @pytest.fixture(scope="session", name=f"{name}_client")
    def client(request: pytest.FixtureRequest, aws_environment: None) -> Iterator[ServiceClient]:  # noqa: ARG001
        opened = connect(request.getfixturevalue(endpoint))
        yield opened
        opened.close()

    @pytest.fixture(name=f"{name}_tables")
    def tables(request: pytest.FixtureRequest) -> tuple[str, str]:
        suffix = uuid.uuid4().hex
        names = f"log-{suffix}", f"views-{suffix}"
        # DynamoDB Local deletes expired items within seconds, and the clock of most tests is in the past.
        create_tables(request.getfixturevalue(f"{name}_client"), *names, with_ttl=False)
        return names

    @pytest.fixture(name=f"{name}_log")
    def log(request: pytest.FixtureRequest) -> DynamoLog:
        return DynamoLog(request.getfixturevalue(f"{name}_client"), *request.getfixturevalue(f"{name}_tables"))

    @pytest.fixture(name=f"{name}_views")
    def views(request: pytest.FixtureRequest) -> DynamoViews:
        return DynamoViews(request.getfixturevalue(f"{name}_client"), request.getfixturevalue(f"{name}_tables")[1])

    return client, tables, log, views


def _connect(endpoint: str) -> Client:
    return create_client(DYNAMODB, endpoint, REGION)


def _connect_boto3(endpoint: str) -> Boto3Client:
    return Boto3Client(DYNAMODB, endpoint, REGION)


ministack_client, ministack_tables, ministack_log, ministack_views = store_fixtures("ministack", "ministack", _connect)
boto3_client, boto3_tables, boto3_log, boto3_views = store_fixtures("boto3", "ministack", _connect_boto3)
dynamodb_local_client, dynamodb_local_tables, dynamodb_local_log, dynamodb_local_views = store_fixtures(
    "dynamodb_local", "dynamodb_local", _connect
)
localstack_client, localstack_tables, localstack_log, localstack_views = store_fixtures(
    "localstack", "localstack", _connect
)
