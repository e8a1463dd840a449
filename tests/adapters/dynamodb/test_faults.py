"""Errors, timeouts and lost responses of DynamoDB."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from chalicelib.adapters.aws.client import DYNAMODB, Client, RetryPolicy, create_client
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.tables import create_tables
from chalicelib.domain.errors import Unavailable
from chalicelib.services.ports import Log
from tests.adapters.aws.endpoints import closing_server, response_dropping_proxy, silent_server
from tests.adapters.aws.transports import ScriptedTransport, create_test_client
from tests.builders import a_commit, a_run
from tests.torture.stores import REGION

RETRYABLE_ERRORS = [
    ("ProvisionedThroughputExceededException", 400),
    ("RequestLimitExceeded", 400),
    ("ThrottlingException", 400),
    ("TransactionConflictException", 400),
    ("TransactionInProgressException", 400),
    ("InternalServerError", 500),
    ("ServiceUnavailable", 503),
    ("UnknownError", 502),
]
FINAL_ERRORS = [("ValidationException", 400), ("AccessDeniedException", 400), ("ResourceNotFoundException", 400)]

OURS = a_run("a", "b")

OPERATIONS: dict[str, tuple[str, Callable[[Log], object]]] = {
    "head": ("Query", lambda log: log.head(1)),
    "append one": ("PutItem", lambda log: log.append([a_commit()])),
    "append more": ("PutItem", lambda log: log.append(OURS)),
    "commit": ("Query", lambda log: log.commit(1, 1)),
    "read": ("Query", lambda log: list(log.read(1, 0))),
    "read back": ("Query", lambda log: list(log.read_backwards(1, 9))),
}


@pytest.fixture
def stub() -> Iterator[ScriptedTransport]:
    transport = ScriptedTransport(DYNAMODB)
    yield transport
    transport.close()


@pytest.fixture
def log(stub: ScriptedTransport) -> DynamoLog:
    return DynamoLog(create_test_client(stub, DYNAMODB), "log", "views")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("code", "status"), RETRYABLE_ERRORS)
def test_log_retryable_error_raises_unavailable(
    log: DynamoLog, stub: ScriptedTransport, operation: str, code: str, status: int
) -> None:
    method, call = OPERATIONS[operation]
    stub.expect_error(method, code, "sorry", status)
    with pytest.raises(Unavailable, match=f"DynamoDB is temporarily unavailable: .*{code}") as failure:
        call(log)
    assert isinstance(failure.value.__cause__, ServiceError)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("code", "status"), FINAL_ERRORS)
def test_log_final_error_raises_service_error(
    log: DynamoLog, stub: ScriptedTransport, operation: str, code: str, status: int
) -> None:
    method, call = OPERATIONS[operation]
    stub.expect_error(method, code, "no", status)
    with pytest.raises(ServiceError, match=code):
        call(log)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_log_closed_connection_raises_unavailable(aws_environment: None, operation: str) -> None:  # noqa: ARG001
    with (
        closing_server() as endpoint,
        log_without_retries(endpoint) as log,
        pytest.raises(Unavailable, match="reached"),
    ):
        OPERATIONS[operation][1](log)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_log_silent_server_raises_unavailable(aws_environment: None, operation: str) -> None:  # noqa: ARG001
    with silent_server() as endpoint, log_without_retries(endpoint) as log, pytest.raises(Unavailable, match="reached"):
        OPERATIONS[operation][1](log)


def test_log_connection_refused_raises_unavailable(aws_environment: None) -> None:  # noqa: ARG001
    with silent_server() as endpoint:
        pass
    with log_without_retries(endpoint) as log, pytest.raises(Unavailable, match="reached"):
        log.head(1)


def test_append_lost_response_is_retried(ministack: str, ministack_client: Client) -> None:
    create_tables(ministack_client, "dropped-log", "dropped-views")
    with response_dropping_proxy(ministack) as (endpoint, dropped):
        client = create_client(DYNAMODB, endpoint, REGION)
        DynamoLog(client, "dropped-log", "dropped-views").append(OURS)
        client.close()
    assert dropped == [200]
    assert list(DynamoLog(ministack_client, "dropped-log", "dropped-views").read(1, 0)) == OURS


@contextmanager
def log_without_retries(endpoint: str) -> Iterator[DynamoLog]:
    """A log whose client has a short timeout and does not retry."""
    client = create_client(DYNAMODB, endpoint, REGION, retry_policy=RetryPolicy(max_attempts=1, attempt_timeout_s=0.1))
    yield DynamoLog(client, "log", "views")
    client.close()
