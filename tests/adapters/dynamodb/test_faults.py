"""When DynamoDB refuses, fails or does not answer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from chalicelib.adapters.aws.client import DYNAMODB, Client, Patience, client
from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.adapters.dynamodb.items import item_from_commit, item_from_receipt
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.tables import create_tables
from chalicelib.domain.errors import KeyTaken, SessionTaken, Unavailable
from chalicelib.services.ports import Log
from tests.adapters.aws.endpoints import closing_server, losing_proxy, silent_server
from tests.adapters.aws.wires import Script, client_on
from tests.builders import NOW_S, a_commit, a_receipt
from tests.torture.stores import REGION

UNANSWERED = [
    ("ProvisionedThroughputExceededException", 400),
    ("RequestLimitExceeded", 400),
    ("ThrottlingException", 400),
    ("TransactionConflictException", 400),
    ("TransactionInProgressException", 400),
    ("InternalServerError", 500),
    ("ServiceUnavailable", 503),
    ("SomethingNobodyHasHeardOf", 502),
]
REFUSED = [("ValidationException", 400), ("AccessDeniedException", 400), ("ResourceNotFoundException", 400)]

OPERATIONS: dict[str, tuple[str, Callable[[Log], object]]] = {
    "head": ("Query", lambda log: log.head(1)),
    "append one": ("PutItem", lambda log: log.append([a_commit()], [], NOW_S)),
    "append more": ("TransactWriteItems", lambda log: log.append([a_commit()], [a_receipt()], NOW_S)),
    "commit": ("GetItem", lambda log: log.commit(1, 1)),
    "read": ("Query", lambda log: list(log.read(1, 0))),
    "read back": ("Query", lambda log: list(log.read_back(1, 9))),
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
def stub() -> Iterator[Script]:
    """Answers in the place of DynamoDB, in order."""
    script = Script(DYNAMODB)
    yield script
    script.close()


@pytest.fixture
def log(stub: Script) -> DynamoLog:
    return DynamoLog(client_on(stub, DYNAMODB), "log", "views")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("code", "status"), UNANSWERED)
def test_throttling_and_server_errors_are_unavailable(
    log: DynamoLog, stub: Script, operation: str, code: str, status: int
) -> None:
    method, call = OPERATIONS[operation]
    stub.refuses(method, code, "sorry", status)
    with pytest.raises(Unavailable, match=f"DynamoDB does not answer: .*{code}") as failure:
        call(log)
    assert isinstance(failure.value.__cause__, Refusal)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("code", "status"), REFUSED)
def test_other_errors_are_not_hidden(log: DynamoLog, stub: Script, operation: str, code: str, status: int) -> None:
    method, call = OPERATIONS[operation]
    stub.refuses(method, code, "no", status)
    with pytest.raises(Refusal, match=code):
        call(log)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_connection_that_closes_is_unavailable(aws_environment: None, operation: str) -> None:  # noqa: ARG001
    with closing_server() as endpoint, impatient_log(endpoint) as log, pytest.raises(Unavailable, match="reached"):
        OPERATIONS[operation][1](log)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_server_that_stays_silent_is_unavailable(aws_environment: None, operation: str) -> None:  # noqa: ARG001
    with silent_server() as endpoint, impatient_log(endpoint) as log, pytest.raises(Unavailable, match="reached"):
        OPERATIONS[operation][1](log)


def test_a_server_that_is_not_there_is_unavailable(aws_environment: None) -> None:  # noqa: ARG001
    with silent_server() as endpoint:
        pass
    with impatient_log(endpoint) as log, pytest.raises(Unavailable, match="reached"):
        log.head(1)


@pytest.mark.parametrize(
    "reasons",
    [(COMMIT_IS_THEIRS, FREE), (COMMIT_IS_THEIRS, KEY_IS_THEIRS), (COMMIT_IS_THEIRS, CONFLICT)],
)
def test_a_session_that_is_held_by_another_is_taken(log: DynamoLog, stub: Script, reasons: Sequence[Any]) -> None:
    cancel(stub, reasons)
    with pytest.raises(SessionTaken, match="session 1 of server 1") as refusal:
        log.append([OURS], [OUR_RECEIPT], NOW_S)
    assert isinstance(refusal.value.__cause__, Refusal)


@pytest.mark.parametrize("reasons", [(FREE, KEY_IS_THEIRS), (CONFLICT, KEY_IS_THEIRS), (COMMIT_IS_OURS, KEY_IS_THEIRS)])
def test_a_key_that_is_held_by_another_is_taken(log: DynamoLog, stub: Script, reasons: Sequence[Any]) -> None:
    cancel(stub, reasons)
    with pytest.raises(KeyTaken, match="idempotency key 'k' of server 1") as refusal:
        log.append([OURS], [OUR_RECEIPT], NOW_S)
    assert isinstance(refusal.value.__cause__, Refusal)


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
def test_a_transaction_cancelled_for_a_passing_reason_is_unavailable(
    log: DynamoLog, stub: Script, reasons: Sequence[Any]
) -> None:
    cancel(stub, reasons)
    with pytest.raises(Unavailable, match="cancelled") as failure:
        log.append([OURS], [OUR_RECEIPT], NOW_S)
    assert isinstance(failure.value.__cause__, Refusal)


@pytest.mark.parametrize("reasons", [(INVALID, FREE), (INVALID, CONFLICT), (COMMIT_IS_OURS, INVALID), (FREE, FREE)])
def test_a_transaction_cancelled_for_another_reason_is_not_hidden(
    log: DynamoLog, stub: Script, reasons: Sequence[Any]
) -> None:
    cancel(stub, reasons)
    with pytest.raises(Refusal, match="TransactionCanceledException"):
        log.append([OURS], [OUR_RECEIPT], NOW_S)


def test_a_transaction_that_finds_all_its_items_there_was_a_success(log: DynamoLog, stub: Script) -> None:
    cancel(stub, (COMMIT_IS_OURS, KEY_IS_OURS))
    log.append([OURS], [OUR_RECEIPT], NOW_S)


def test_what_a_transaction_does_not_find_is_written(log: DynamoLog, stub: Script) -> None:
    cancel(stub, (COMMIT_IS_OURS, FREE))
    stub.answers(
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
def test_an_answer_lost_on_the_way_is_made_good_by_the_retry(
    ministack: str, ministack_client: Client, receipts: list[Any]
) -> None:
    name = f"lost-{len(receipts)}"
    create_tables(ministack_client, f"{name}-log", f"{name}-views")
    with losing_proxy(ministack) as (endpoint, lost):
        opened = client(DYNAMODB, endpoint, REGION)
        DynamoLog(opened, f"{name}-log", f"{name}-views").append([OURS], receipts, NOW_S)
        opened.close()
    assert lost == [200]
    stored = DynamoLog(ministack_client, f"{name}-log", f"{name}-views")
    assert list(stored.read(1, 0)) == [OURS]
    assert stored.receipt(1, "k", NOW_S) == (OUR_RECEIPT if receipts else None)


def cancel(stub: Script, reasons: Sequence[Any]) -> None:
    """Let the next transaction be cancelled."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons [{codes}]"
    stub.refuses("TransactWriteItems", "TransactionCanceledException", message, CancellationReasons=list(reasons))


@contextmanager
def impatient_log(endpoint: str) -> Iterator[DynamoLog]:
    """A log on a client that tries once, and not for long."""
    opened = client(DYNAMODB, endpoint, REGION, patience=Patience(attempts=1, attempt_s=0.1))
    yield DynamoLog(opened, "log", "views")
    opened.close()
