"""Stores for the tests: SQLite, and DynamoDB on moto in this process and on other emulators."""

import uuid
from collections.abc import Iterator
from pathlib import Path

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
def ministack_client(ministack: str, aws_environment: None) -> Iterator[Client]:  # noqa: ARG001
    """One client for all tests; threads may share it."""
    opened = create_client(DYNAMODB, ministack, REGION)
    yield opened
    opened.close()


@pytest.fixture
def ministack_tables(ministack_client: Client) -> tuple[str, str]:
    """The names of two empty tables, for the log and for views."""
    return _new_tables(ministack_client)


@pytest.fixture
def ministack_log(ministack_client: Client, ministack_tables: tuple[str, str]) -> DynamoLog:
    """An empty log in new tables."""
    return DynamoLog(ministack_client, *ministack_tables)


@pytest.fixture
def ministack_views(ministack_client: Client, ministack_tables: tuple[str, str]) -> DynamoViews:
    """Empty views in a new table."""
    return DynamoViews(ministack_client, ministack_tables[1])


@pytest.fixture(scope="session")
def boto3_client(ministack: str, aws_environment: None) -> Iterator[Boto3Client]:  # noqa: ARG001
    """A client of ministack on boto3; threads may share it."""
    opened = Boto3Client(DYNAMODB, ministack, REGION)
    yield opened
    opened.close()


@pytest.fixture
def boto3_tables(boto3_client: Boto3Client) -> tuple[str, str]:
    """The names of two empty tables, for the log and for views."""
    return _new_tables(boto3_client)


@pytest.fixture
def boto3_log(boto3_client: Boto3Client, boto3_tables: tuple[str, str]) -> DynamoLog:
    """An empty log in new tables."""
    return DynamoLog(boto3_client, *boto3_tables)


@pytest.fixture
def boto3_views(boto3_client: Boto3Client, boto3_tables: tuple[str, str]) -> DynamoViews:
    """Empty views in a new table."""
    return DynamoViews(boto3_client, boto3_tables[1])


@pytest.fixture(scope="session")
def dynamodb_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a DynamoDB Local that lives as long as the test run."""
    if reason := dynamodb_local_server.missing():
        pytest.skip(reason)
    with servers.dynamodb_local(tmp_path_factory.mktemp("dynamodb-local")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def dynamodb_local_client(dynamodb_local: str, aws_environment: None) -> Iterator[Client]:  # noqa: ARG001
    """One client for all tests; threads may share it."""
    opened = create_client(DYNAMODB, dynamodb_local, REGION)
    yield opened
    opened.close()


@pytest.fixture
def dynamodb_local_tables(dynamodb_local_client: Client) -> tuple[str, str]:
    """The names of two empty tables, for the log and for views."""
    return _new_tables(dynamodb_local_client)


@pytest.fixture
def dynamodb_local_log(dynamodb_local_client: Client, dynamodb_local_tables: tuple[str, str]) -> DynamoLog:
    """An empty log in new tables."""
    return DynamoLog(dynamodb_local_client, *dynamodb_local_tables)


@pytest.fixture
def dynamodb_local_views(dynamodb_local_client: Client, dynamodb_local_tables: tuple[str, str]) -> DynamoViews:
    """Empty views in a new table."""
    return DynamoViews(dynamodb_local_client, dynamodb_local_tables[1])


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


@pytest.fixture(scope="session")
def localstack_client(localstack: str, aws_environment: None) -> Iterator[Client]:  # noqa: ARG001
    """One client for all tests; threads may share it."""
    opened = create_client(DYNAMODB, localstack, REGION)
    yield opened
    opened.close()


@pytest.fixture
def localstack_tables(localstack_client: Client) -> tuple[str, str]:
    """The names of two empty tables, for the log and for views."""
    return _new_tables(localstack_client)


@pytest.fixture
def localstack_log(localstack_client: Client, localstack_tables: tuple[str, str]) -> DynamoLog:
    """An empty log in new tables."""
    return DynamoLog(localstack_client, *localstack_tables)


@pytest.fixture
def localstack_views(localstack_client: Client, localstack_tables: tuple[str, str]) -> DynamoViews:
    """Empty views in a new table."""
    return DynamoViews(localstack_client, localstack_tables[1])


def _new_tables(client: ServiceClient) -> tuple[str, str]:
    suffix = uuid.uuid4().hex
    log_table, views_table = f"log-{suffix}", f"views-{suffix}"
    # DynamoDB Local deletes expired items within seconds, and the clock of most tests is in the past.
    create_tables(client, log_table, views_table, with_ttl=False)
    return log_table, views_table
