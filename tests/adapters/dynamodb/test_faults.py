"""Errors, timeouts and lost responses of DynamoDB."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from chalicelib.adapters.aws.client import DYNAMODB, Client, RetryPolicy, create_client
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.dynamodb.items import item_from_commit, item_from_receipt
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.tables import create_tables
from chalicelib.domain.errors import KeyTaken, SessionTaken, Unavailable
from chalicelib.services.ports import Log
from tests.adapters.aws.endpoints import closing_server, response_dropping_proxy, silent_server
from tests.adapters.aws.transports import ScriptedTransport, create_test_client
from tests.builders import NOW_S, a_commit, a_receipt
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

OPERATIONS: dict[str, tuple[str, Callable[[Log], object]]] = {
    "head": ("Query", lambda log: log.head(1)),
    "append one": ("PutItem", lambda log: log.append([a_commit()], [], NOW_S)),
    "append more": ("TransactWriteItems", lambda log: log.append([a_commit()], [a_receipt()], NOW_S)),
    "commit": ("GetItem", lambda log: log.commit(1, 1)),
    "read": ("Query", lambda log: list(log.read(1, 0))),
    "read back": ("Query", lambda log: list(log.read_backwards(1, 9))),
    "receipt": ("GetItem", lambda log: log.receipt(1, "k", NOW_S)),
}

OURS = a_commit(session=1, request_id="ours")
OUR_RECEIPT = a_receipt(key="k", session=1, request_id="ours")

FREE: dict[str, Any] = {"Code": "None"}
COMMIT_IS_OURS: dict[str, Any] = {"Code": "ConditionalCheckFailed", "Item": item_from_commit(OURS)}
COMMIT_IS_THEIRS: dict[str, Any] = {
    "Code": "ConditionalCheckFailed",
    "Item": item_from_commit(a_commit(request_id="theirs")),
}
KEY_IS_OURS: dict[str, Any] = {"Code": "ConditionalCheckFailed", "Item": item_from_receipt(OUR_RECEIPT)}
KEY_IS_THEIRS: dict[str, Any] = {
    "Code": "ConditionalCheckFailed",
    "Item": item_from_receipt(a_receipt(request_id="theirs")),
}
CONFLICT: dict[str, Any] = {"Code": "TransactionConflict"}
THROTTLED: dict[str, Any] = {"Code": "ThrottlingError"}
EXCEEDED: dict[str, Any] = {"Code": "ProvisionedThroughputExceeded"}
INVALID: dict[str, Any] = {"Code": "ValidationError"}


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


@pytest.mark.parametrize(
    "reasons",
    [(COMMIT_IS_THEIRS, FREE), (COMMIT_IS_THEIRS, KEY_IS_THEIRS), (COMMIT_IS_THEIRS, CONFLICT)],
)
def test_append_session_of_other_request_raises_session_taken(
    log: DynamoLog, stub: ScriptedTransport, reasons: Sequence[Any]
) -> None:
    expect_cancellation(stub, reasons)
    with pytest.raises(SessionTaken, match="session 1 of server 1") as refusal:
        log.append([OURS], [OUR_RECEIPT], NOW_S)
    assert isinstance(refusal.value.__cause__, ServiceError)


@pytest.mark.parametrize("reasons", [(FREE, KEY_IS_THEIRS), (CONFLICT, KEY_IS_THEIRS), (COMMIT_IS_OURS, KEY_IS_THEIRS)])
def test_append_key_of_other_request_raises_key_taken(
    log: DynamoLog, stub: ScriptedTransport, reasons: Sequence[Any]
) -> None:
    expect_cancellation(stub, reasons)
    with pytest.raises(KeyTaken, match="idempotency key 'k' of server 1") as refusal:
        log.append([OURS], [OUR_RECEIPT], NOW_S)
    assert isinstance(refusal.value.__cause__, ServiceError)


@pytest.mark.parametrize(
    "reasons",
    [
        (CONFLICT, FREE),
        (FREE, CONFLICT),
        (CONFLICT, CONFLICT),
        (THROTTLED, FREE),
        (EXCEEDED, FREE),
        (THROTTLED, EXCEEDED),
        (COMMIT_IS_OURS, CONFLICT),
    ],
)
def test_append_cancelled_retryable_raises_unavailable(
    log: DynamoLog, stub: ScriptedTransport, reasons: Sequence[Any]
) -> None:
    expect_cancellation(stub, reasons)
    with pytest.raises(Unavailable, match="cancelled") as failure:
        log.append([OURS], [OUR_RECEIPT], NOW_S)
    assert isinstance(failure.value.__cause__, ServiceError)


@pytest.mark.parametrize("reasons", [(INVALID, FREE), (INVALID, CONFLICT), (COMMIT_IS_OURS, INVALID), (FREE, FREE)])
def test_append_cancelled_otherwise_raises_service_error(
    log: DynamoLog, stub: ScriptedTransport, reasons: Sequence[Any]
) -> None:
    expect_cancellation(stub, reasons)
    with pytest.raises(ServiceError, match="TransactionCanceledException"):
        log.append([OURS], [OUR_RECEIPT], NOW_S)


def test_append_cancelled_by_own_items_succeeds(log: DynamoLog, stub: ScriptedTransport) -> None:
    expect_cancellation(stub, (COMMIT_IS_OURS, KEY_IS_OURS))
    log.append([OURS], [OUR_RECEIPT], NOW_S)


def test_append_cancelled_writes_remaining_items(log: DynamoLog, stub: ScriptedTransport) -> None:
    expect_cancellation(stub, (COMMIT_IS_OURS, FREE))
    stub.expect(
        "TransactWriteItems",
        {},
        {
            "TransactItems": [
                {
                    "Put": {
                        "TableName": "views",
                        "Item": item_from_receipt(OUR_RECEIPT),
                        "ConditionExpression": "attribute_not_exists(#item) OR #ttl < :now",
                        "ExpressionAttributeNames": {"#item": "item", "#ttl": "ttl"},
                        "ExpressionAttributeValues": {":now": {"N": str(NOW_S)}},
                        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                    }
                }
            ]
        },
    )
    log.append([OURS], [OUR_RECEIPT], NOW_S)


@pytest.mark.parametrize("receipts", [[], [OUR_RECEIPT]], ids=["put", "transaction"])
def test_append_lost_response_is_retried(ministack: str, ministack_client: Client, receipts: list[Any]) -> None:
    name = f"dropped-{len(receipts)}"
    create_tables(ministack_client, f"{name}-log", f"{name}-views")
    with response_dropping_proxy(ministack) as (endpoint, dropped):
        client = create_client(DYNAMODB, endpoint, REGION)
        DynamoLog(client, f"{name}-log", f"{name}-views").append([OURS], receipts, NOW_S)
        client.close()
    assert dropped == [200]
    stored = DynamoLog(ministack_client, f"{name}-log", f"{name}-views")
    assert list(stored.read(1, 0)) == [OURS]
    assert stored.receipt(1, "k", NOW_S) == (OUR_RECEIPT if receipts else None)


def expect_cancellation(stub: ScriptedTransport, reasons: Sequence[Any]) -> None:
    """Expect a transaction and cancel it."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons [{codes}]"
    stub.expect_error("TransactWriteItems", "TransactionCanceledException", message, CancellationReasons=list(reasons))


@contextmanager
def log_without_retries(endpoint: str) -> Iterator[DynamoLog]:
    """A log whose client has a short timeout and does not retry."""
    client = create_client(DYNAMODB, endpoint, REGION, retry_policy=RetryPolicy(max_attempts=1, attempt_timeout_s=0.1))
    yield DynamoLog(client, "log", "views")
    client.close()
