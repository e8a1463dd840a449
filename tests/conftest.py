"""Stores for the tests: SQLite in a file, DynamoDB as moto in this process and as ministack in another."""

import http.client
import socket
import subprocess
import time
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

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

REGION = "eu-central-1"
MINISTACK = Path(__file__).parent.parent / ".venv-ministack" / "bin" / "ministack"
MINISTACK_START_S = 60.0
MINISTACK_STOP_S = 10.0
POLL_S = 0.05


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
    if not MINISTACK.exists():
        pytest.fail("ministack is missing: `make test` installs it", pytrace=False)
    port, home = _free_port(), tmp_path_factory.mktemp("ministack")
    output = home / "output.txt"
    with output.open("w") as sink:
        process = subprocess.Popen(
            [MINISTACK], env=_ministack_environment(port, home), cwd=home, stdout=sink, stderr=subprocess.STDOUT
        )
    try:
        _await_ministack(process, port, output)
        yield f"http://127.0.0.1:{port}"
    finally:
        _stop(process)


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


def _ministack_environment(port: int, home: Path) -> dict[str, str]:
    """All that ministack may know: nothing of this machine, no Docker, no port but the one."""
    return {
        "PATH": f"{MINISTACK.parent}:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "STATE_DIR": str(home / "state"),
        "S3_DATA_DIR": str(home / "s3"),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_REGION": REGION,
        "DOCKER_HOST": f"unix://{home}/no-docker.sock",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
    }


def _await_ministack(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + MINISTACK_START_S
    while not _is_healthy(port):
        if _ends_within(process, POLL_S) or time.monotonic() > deadline:
            pytest.fail(f"ministack did not start; it said:\n{output.read_text()[-2000:]}", pytrace=False)


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/_ministack/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    if not _ends_within(process, MINISTACK_STOP_S):
        process.kill()
        process.wait()


def _ends_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
