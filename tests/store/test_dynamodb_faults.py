"""When DynamoDB refuses, fails or does not answer."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from chalicelib.domain.errors import KeyTaken, SessionTaken, Unavailable
from chalicelib.services.ports import Log
from chalicelib.store.dynamodb.client import dynamodb_client
from chalicelib.store.dynamodb.items import item_from_commit, item_from_receipt
from chalicelib.store.dynamodb.log import DynamoLog
from chalicelib.store.dynamodb.tables import create_tables
from tests.builders import NOW_S, a_commit, a_receipt
from tests.torture.stores import REGION

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

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
    "head": ("query", lambda log: log.head(1)),
    "append one": ("put_item", lambda log: log.append([a_commit()], [], NOW_S)),
    "append more": ("transact_write_items", lambda log: log.append([a_commit()], [a_receipt()], NOW_S)),
    "commit": ("get_item", lambda log: log.commit(1, 1)),
    "read": ("query", lambda log: list(log.read(1, 0))),
    "read back": ("query", lambda log: list(log.read_back(1, 9))),
    "receipt": ("get_item", lambda log: log.receipt(1, "k", NOW_S)),
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
def stub(moto_client: "DynamoDBClient") -> Iterator[Stubber]:
    """Answers in the place of DynamoDB, in order."""
    with Stubber(moto_client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def log(moto_client: "DynamoDBClient") -> DynamoLog:
    return DynamoLog(moto_client, "log", "views")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("code", "status"), UNANSWERED)
def test_throttling_and_server_errors_are_unavailable(
    log: DynamoLog, stub: Stubber, operation: str, code: str, status: int
) -> None:
    method, call = OPERATIONS[operation]
    stub.add_client_error(method, code, "sorry", status)
    with pytest.raises(Unavailable, match=f"DynamoDB does not answer: .*{code}") as failure:
        call(log)
    assert isinstance(failure.value.__cause__, ClientError)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("code", "status"), REFUSED)
def test_other_errors_are_not_hidden(log: DynamoLog, stub: Stubber, operation: str, code: str, status: int) -> None:
    method, call = OPERATIONS[operation]
    stub.add_client_error(method, code, "no", status)
    with pytest.raises(ClientError, match=code):
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
def test_a_session_that_is_held_by_another_is_taken(log: DynamoLog, stub: Stubber, reasons: Sequence[Any]) -> None:
    cancel(stub, reasons)
    with pytest.raises(SessionTaken, match="session 1 of server 1") as refusal:
        log.append([OURS], [OUR_RECEIPT], NOW_S)
    assert isinstance(refusal.value.__cause__, ClientError)


@pytest.mark.parametrize("reasons", [(FREE, KEY_IS_THEIRS), (CONFLICT, KEY_IS_THEIRS), (COMMIT_IS_OURS, KEY_IS_THEIRS)])
def test_a_key_that_is_held_by_another_is_taken(log: DynamoLog, stub: Stubber, reasons: Sequence[Any]) -> None:
    cancel(stub, reasons)
    with pytest.raises(KeyTaken, match="idempotency key 'k' of server 1") as refusal:
        log.append([OURS], [OUR_RECEIPT], NOW_S)
    assert isinstance(refusal.value.__cause__, ClientError)


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
    log: DynamoLog, stub: Stubber, reasons: Sequence[Any]
) -> None:
    cancel(stub, reasons)
    with pytest.raises(Unavailable, match="cancelled") as failure:
        log.append([OURS], [OUR_RECEIPT], NOW_S)
    assert isinstance(failure.value.__cause__, ClientError)


@pytest.mark.parametrize("reasons", [(INVALID, FREE), (INVALID, CONFLICT), (COMMIT_IS_OURS, INVALID), (FREE, FREE)])
def test_a_transaction_cancelled_for_another_reason_is_not_hidden(
    log: DynamoLog, stub: Stubber, reasons: Sequence[Any]
) -> None:
    cancel(stub, reasons)
    with pytest.raises(ClientError, match="TransactionCanceledException"):
        log.append([OURS], [OUR_RECEIPT], NOW_S)


def test_a_transaction_that_finds_all_its_items_there_was_a_success(log: DynamoLog, stub: Stubber) -> None:
    cancel(stub, (COMMIT_IS_OURS, KEY_IS_OURS))
    log.append([OURS], [OUR_RECEIPT], NOW_S)


def test_what_a_transaction_does_not_find_is_written(log: DynamoLog, stub: Stubber) -> None:
    cancel(stub, (COMMIT_IS_OURS, FREE))
    stub.add_response(
        "transact_write_items",
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
    ministack: str, ministack_client: "DynamoDBClient", receipts: list[Any]
) -> None:
    name = f"lost-{len(receipts)}"
    create_tables(ministack_client, f"{name}-log", f"{name}-views")
    with losing_proxy(ministack) as (endpoint, lost):
        client = dynamodb_client(endpoint, REGION)
        DynamoLog(client, f"{name}-log", f"{name}-views").append([OURS], receipts, NOW_S)
        client.close()
    assert lost == [200]
    stored = DynamoLog(ministack_client, f"{name}-log", f"{name}-views")
    assert list(stored.read(1, 0)) == [OURS]
    assert stored.receipt(1, "k", NOW_S) == (OUR_RECEIPT if receipts else None)


def cancel(stub: Stubber, reasons: Sequence[Any]) -> None:
    """Let the next transaction be cancelled."""
    stub.add_client_error(
        "transact_write_items",
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons [{', '.join(r['Code'] for r in reasons)}]",
        modeled_fields={"CancellationReasons": list(reasons)},
    )


@contextmanager
def impatient_log(endpoint: str) -> Iterator[DynamoLog]:
    """A log on a client that tries once, and not for long."""
    config = Config(connect_timeout=1, read_timeout=0.1, retries={"total_max_attempts": 1})
    client = boto3.client("dynamodb", endpoint_url=endpoint, region_name=REGION, config=config)
    yield DynamoLog(client, "log", "views")
    client.close()


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def closing_server() -> Iterator[str]:
    """A server that reads a request and hangs up."""

    class HangUp(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serving(HangUp) as endpoint:
        yield endpoint


@contextmanager
def losing_proxy(target: str) -> Iterator[tuple[str, list[int]]]:
    """A server between us and `target` that passes the first request on and loses the answer; and what it lost."""
    lost: list[int] = []

    class LoseFirst(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            connection = http.client.HTTPConnection(urlsplit(target).netloc, timeout=10)
            connection.request("POST", self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            self.close_connection = True
            if not lost:
                lost.append(answer.status)
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with serving(LoseFirst) as endpoint:
        yield endpoint, lost


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
