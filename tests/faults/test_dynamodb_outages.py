"""DynamoDB throttles, fails, hangs, lies: who asks is answered in time, and nothing is lost or written twice."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import app
from chalicelib import wiring
from chalicelib.adapters.aws import client as aws
from chalicelib.adapters.aws.client import DYNAMODB, Client, Patience
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.log.commit import Appended
from chalicelib.services.log.appender import Appender
from tests.builders import NOW_S, an_append
from tests.faults.endpoint import (
    Endpoint,
    Fault,
    cut,
    cut_short,
    endpoint,
    falsified,
    garbled,
    left_over,
    lost,
    lost_and_refused,
    made_up,
    refused,
)
from tests.torture.stores import REGION

INGEST: Callable[[dict[str, Any], object], dict[str, Any]] = app.ingest
EVENTS = Path(__file__).parent.parent / "events"
CALLER = {"user": "anna", "organizations": '["acme"]', "groups": '["publishers", "readers", "admins"]', "expires": "9"}
MOST_ATTEMPTS = 3
"""Of the client, for one call."""
A_CALL_S = 5.0
"""What one call takes at most that fails at once, with all attempts and the pauses between them."""

PASSING: dict[str, Fault] = {
    "provisioned throughput exceeded": refused("ProvisionedThroughputExceededException"),
    "throttling": refused("ThrottlingException"),
    "request limit exceeded": refused("RequestLimitExceeded"),
    "internal error": refused("InternalServerError", 500),
    "service unavailable": refused("ServiceUnavailable", 503),
    "credentials expired": refused("ExpiredTokenException"),
    "connection cut": cut,
    "not an answer": made_up,
    "half an answer": cut_short,
    "an answer with another checksum": falsified,
}
AMBIGUOUS: dict[str, Fault] = {
    "answer lost": lost,
    "done, and said to have failed": lost_and_refused("InternalServerError", 500),
    "done, and said to be throttled": lost_and_refused("ThrottlingException"),
    "done, and not an answer": garbled,
    "done, and half an answer": cut_short,
    "done, and another checksum": falsified,
}
LASTING: dict[str, Fault] = {
    "access denied": refused("AccessDeniedException"),
    "no such table": refused("ResourceNotFoundException"),
}


class Context:
    """What Lambda says about the call."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - time.monotonic()) * 1000)


@dataclass(frozen=True)
class Answered:
    """An answer, and how long it took."""

    status: int
    headers: Mapping[str, str]
    json: Any
    seconds: float

    @property
    def outcome(self) -> tuple[int, str | None]:
        return self.status, self.headers.get("Retry-After")


def ask(
    method: str, path: str, body: object = None, left_s: float = 29.0, key: str | None = None, **query: str
) -> Answered:
    """What API Gateway has Lambda do."""
    event = {
        "resource": path,
        "path": path,
        "httpMethod": method,
        "headers": {"content-type": "application/json", **({} if key is None else {"idempotency-key": key})},
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()},
        "pathParameters": {},
        "stageVariables": None,
        "requestContext": {"resourcePath": path, "httpMethod": method, "path": path, "authorizer": CALLER},
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }
    began = time.monotonic()
    answer = app.app(event, Context(left_s))
    return Answered(answer["statusCode"], answer["headers"], json.loads(answer["body"]), time.monotonic() - began)


def append(name: str, left_s: float = 29.0, key: str | None = None) -> Answered:
    return ask("POST", "/events", {"events": [{"type": [name]}]}, left_s, key)


def payload(name: str) -> dict[str, Any]:
    """A stored Lambda event."""
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return found


@pytest.fixture(name="broken")
def an_endpoint(ministack: str) -> Iterator[Endpoint]:
    with endpoint(ministack) as found:
        yield found


@pytest.fixture(name="log")
def the_log_as_it_is(
    broken: Endpoint,
    ministack_client: Client,
    ministack_tables: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[DynamoLog]:
    """The app on AWS as far as it can tell, by way of the endpoint; and its log, by another way."""
    settings = {"STORE": "dynamodb", "STREAMS": "no", "LONGEST_POLL": "25", "AWS_ENDPOINT_URL": broken.url}
    tables = {"LOG_TABLE": ministack_tables[0], "VIEWS_TABLE": ministack_tables[1]}
    for name, value in {**settings, **tables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws, "USUAL", Patience(attempt_s=0.3))
    wiring.annals.cache_clear()
    wiring.annals().organizations.create("acme")
    wiring.annals().organizations.server("acme")
    yield DynamoLog(ministack_client, *ministack_tables)
    wiring.annals().close()
    wiring.annals.cache_clear()


def types_in(log: DynamoLog) -> list[str]:
    return [event.stored.type[0] for commit in log.read(1, 0) for event in commit.events]


def with_each(
    faults: Mapping[str, Fault],
    store: str,
    times: float,
    work: Callable[[str, DynamoLog], object],
    tables: tuple[str, str],
) -> dict[str, tuple[object, int]]:
    """What comes of the work with each of the faults, and after how many calls; all at the same time."""

    def outcome(name: str) -> tuple[object, int]:
        with endpoint(store) as found, found.failing(faults[name], times=times) as calls:
            client = aws.client(DYNAMODB, found.url, REGION)
            try:
                return work(name, DynamoLog(client, *tables)), sum(calls.values())
            except Unavailable as failure:
                return str(failure).partition(" ")[0], sum(calls.values())
            finally:
                client.close()

    with ThreadPoolExecutor(len(faults)) as threads:
        return dict(zip(faults, threads.map(outcome, faults), strict=True))


def test_a_read_that_fails_again_and_again_is_given_up_after_few_tries(
    ministack: str, ministack_tables: tuple[str, str], aws_environment: None
) -> None:
    del aws_environment
    began = time.monotonic()
    found = with_each(PASSING, ministack, float("inf"), lambda _, log: log.head(1), ministack_tables)
    assert {fault: said for fault, (said, _) in found.items()} == dict.fromkeys(PASSING, "DynamoDB")
    assert {fault: calls for fault, (_, calls) in found.items() if calls > MOST_ATTEMPTS} == {}
    assert time.monotonic() - began < 2 * A_CALL_S


def test_what_was_written_although_it_was_said_to_have_failed_is_written_once(
    ministack: str, ministack_tables: tuple[str, str], aws_environment: None
) -> None:
    """More often than the client itself repeats a call: the same write is then repeated by whoever appends."""
    del aws_environment
    faults = {f"{fault}, {kind}": how for fault, how in AMBIGUOUS.items() for kind in ("put", "transaction")}
    servers = dict(zip(faults, count(1), strict=False))

    def written(name: str, log: DynamoLog) -> list[str]:
        key = "k" if name.endswith("transaction") else None
        request = an_append(request_id=name, server=servers[name], idempotency_key=key)
        outcome = Appender(log, lambda: NOW_S * 1000).append(request)
        assert isinstance(outcome, Appended)
        return [commit.request_id for commit in log.read(servers[name], 0)]

    found = with_each(faults, ministack, MOST_ATTEMPTS + 2, written, ministack_tables)
    assert {name: said for name, (said, _) in found.items()} == {name: [name] for name in faults}


def test_a_failure_is_answered_503_and_the_next_request_is_served(log: DynamoLog, broken: Endpoint) -> None:
    assert append("before").status == 201
    with broken.failing(refused("InternalServerError", 500)):
        answer = ask("GET", "/events")
    assert answer.outcome == (503, "1")
    assert answer.json["detail"].startswith("DynamoDB does not answer: ")
    assert ask("GET", "/events").json["eventSnapshots"][0]["type"] == types_in(log) == ["before"]


def test_a_page_that_says_all_is_well_is_no_acknowledgement(log: DynamoLog, broken: Endpoint) -> None:
    """A proxy answers 200 for a write that got nowhere."""
    with broken.failing(made_up, "PutItem"):
        answer = append("no", left_s=3.0)
    assert (answer.outcome, types_in(log)) == ((503, "1"), [])


def test_a_transaction_that_conflicts_is_tried_until_it_does_not(log: DynamoLog, broken: Endpoint) -> None:
    reasons = [{"Code": "TransactionConflict"}, {"Code": "None"}]
    conflict = refused("TransactionCanceledException", CancellationReasons=reasons)
    with broken.failing(conflict, "TransactWriteItems", times=5):
        answer = append("once", key="k")
    assert (answer.status, types_in(log)) == (201, ["once"])


def test_an_append_without_an_answer_until_its_deadline_may_be_repeated(log: DynamoLog, broken: Endpoint) -> None:
    with broken.failing(lost, "TransactWriteItems"):
        answer = append("once", left_s=3.0, key="k")
    assert (answer.outcome, answer.seconds < 3.0) == ((503, "1"), True)
    again = append("once", key="k")
    assert (again.status, again.headers.get("Idempotent-Replayed"), types_in(log)) == (200, "true", ["once"])


def test_one_table_that_is_away_stops_only_what_needs_it(
    log: DynamoLog, broken: Endpoint, ministack_tables: tuple[str, str]
) -> None:
    with broken.failing(cut, table=ministack_tables[1]):
        assert append("plain").status == 201
        assert ask("GET", "/events").json["eventSnapshots"][0]["type"] == ["plain"]
        assert ask("POST", "/events/latest", {}).outcome == (503, "1")
    assert types_in(log) == ["plain"]


def test_a_batch_of_which_nothing_is_ever_done_is_given_up(log: DynamoLog, broken: Endpoint) -> None:
    assert append("before").status == 201
    with broken.failing(left_over, "BatchGetItem") as calls:
        answer = ask("POST", "/events/latest", {}, left_s=3.0)
    assert (answer.outcome, answer.seconds < 3.0, calls["BatchGetItem"] <= 10) == ((503, "1"), True, True)
    assert types_in(log) == ["before"]


@pytest.mark.parametrize("asked", ["append", "read", "poll"])
def test_a_store_that_hangs_is_answered_for_while_there_is_time(asked: str, log: DynamoLog, broken: Endpoint) -> None:
    left_s = 4.0
    with broken.failing(broken.silence) as calls:
        answer = {
            "append": lambda: append("no", left_s),
            "read": lambda: ask("GET", "/events", left_s=left_s),
            "poll": lambda: ask("GET", "/events", left_s=left_s, timeout="25s"),
        }[asked]()
    assert answer.outcome == (503, "1")
    assert (answer.seconds < left_s, sum(calls.values()) < 10) == (True, True)
    assert types_in(log) == []


def test_messages_whose_fate_is_unknown_come_again_and_are_written_once(log: DynamoLog, broken: Endpoint) -> None:
    wiring.annals().organizations.create("other")
    with broken.failing(lost, "PutItem"):
        failed = INGEST(payload("sqs_fifo_two_organizations"), Context(3.0))
    sent = payload("sqs_fifo_two_organizations")["Records"]
    assert {one["itemIdentifier"] for one in failed["batchItemFailures"]} == {one["messageId"] for one in sent}
    assert INGEST(payload("sqs_fifo_redelivered"), Context(29.0)) == {"batchItemFailures": []}
    stored = [event.stored.key for server in (1, 2) for commit in log.read(server, 0) for event in commit.events]
    assert stored == ["/job/117", "/job/117", "/job/118", "/job/1", "/job/1"]


@pytest.mark.parametrize("fault", LASTING)
def test_what_does_not_pass_is_not_tried_again(fault: str, log: DynamoLog, broken: Endpoint) -> None:
    with broken.failing(LASTING[fault]) as calls:
        answer = append("no")
    assert (answer.outcome, sum(calls.values()), types_in(log)) == ((500, None), 1, [])
