"""DynamoDB throttles, fails, hangs or lies: callers get a response in time, and nothing is lost or written twice."""

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
from chalicelib.adapters.aws.client import DYNAMODB, Client, RetryPolicy
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.log.commit import Appended
from chalicelib.services.log.appender import Appender
from tests.builders import NOW_S, an_append
from tests.faults.faulty_endpoint import (
    Fault,
    FaultyEndpoint,
    corrupt_checksum,
    cut_connection,
    execute_but_report_error,
    execute_but_respond_with_html,
    faulty_endpoint,
    leave_batch_unprocessed,
    lose_response,
    respond_with_error,
    respond_with_html,
    truncate_response,
)
from tests.torture.stores import REGION

INGEST: Callable[[dict[str, Any], object], dict[str, Any]] = app.ingest
EVENTS = Path(__file__).parent.parent / "events"
CALLER = {"user": "anna", "organizations": '["acme"]', "groups": '["publishers", "readers", "admins"]', "expires": "9"}
MAX_ATTEMPTS = 3
"""Attempts of the AWS client for one call."""
MAX_CALL_S = 5.0
"""Longest time for all attempts of a call that fails at once, with the delays between them."""

TRANSIENT: dict[str, Fault] = {
    "provisioned throughput exceeded": respond_with_error("ProvisionedThroughputExceededException"),
    "throttling": respond_with_error("ThrottlingException"),
    "request limit exceeded": respond_with_error("RequestLimitExceeded"),
    "internal error": respond_with_error("InternalServerError", 500),
    "service unavailable": respond_with_error("ServiceUnavailable", 503),
    "credentials expired": respond_with_error("ExpiredTokenException"),
    "connection cut": cut_connection,
    "not a response": respond_with_html,
    "half a response": truncate_response,
    "wrong checksum": corrupt_checksum,
}
AMBIGUOUS: dict[str, Fault] = {
    "response lost": lose_response,
    "executed, reported as failed": execute_but_report_error("InternalServerError", 500),
    "executed, reported as throttled": execute_but_report_error("ThrottlingException"),
    "executed, not a response": execute_but_respond_with_html,
    "executed, half a response": truncate_response,
    "executed, wrong checksum": corrupt_checksum,
}
PERMANENT: dict[str, Fault] = {
    "access denied": respond_with_error("AccessDeniedException"),
    "no such table": respond_with_error("ResourceNotFoundException"),
}


class Context:
    """The Lambda context of an invocation."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - time.monotonic()) * 1000)


@dataclass(frozen=True)
class TimedResponse:
    """A response and its duration."""

    status: int
    headers: Mapping[str, str]
    json: Any
    seconds: float

    @property
    def outcome(self) -> tuple[int, str | None]:
        return self.status, self.headers.get("Retry-After")


def invoke(
    method: str, path: str, body: object = None, left_s: float = 29.0, key: str | None = None, **query: str
) -> TimedResponse:
    """Invoke the app with the event of API Gateway."""
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
    return TimedResponse(answer["statusCode"], answer["headers"], json.loads(answer["body"]), time.monotonic() - began)


def append(name: str, left_s: float = 29.0, key: str | None = None) -> TimedResponse:
    return invoke("POST", "/events", {"events": [{"type": [name]}]}, left_s, key)


def payload(name: str) -> dict[str, Any]:
    """A stored Lambda event."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


@pytest.fixture(name="broken")
def fixture_broken(ministack: str) -> Iterator[FaultyEndpoint]:
    with faulty_endpoint(ministack) as endpoint:
        yield endpoint


@pytest.fixture(name="log")
def fixture_log(
    broken: FaultyEndpoint,
    ministack_client: Client,
    ministack_tables: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[DynamoLog]:
    """Let the app use the faulty endpoint, and return its log through a healthy client."""
    settings = {"STORE": "dynamodb", "STREAMS": "no", "LONGEST_POLL": "25", "AWS_ENDPOINT_URL": broken.url}
    tables = {"LOG_TABLE": ministack_tables[0], "VIEWS_TABLE": ministack_tables[1]}
    for name, value in {**settings, **tables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws, "DEFAULT_RETRY_POLICY", RetryPolicy(attempt_timeout_s=0.3))
    wiring.get_components.cache_clear()
    wiring.get_components().log.organizations.create("acme")
    wiring.get_components().log.organizations.server("acme")
    yield DynamoLog(ministack_client, *ministack_tables)
    wiring.get_components().close()
    wiring.get_components.cache_clear()


def types_in(log: DynamoLog) -> list[str]:
    return [event.fields.type[0] for commit in log.read(1, 0) for event in commit.events]


def run_with_faults(
    faults: Mapping[str, Fault],
    store: str,
    times: float,
    work: Callable[[str, DynamoLog], object],
    tables: tuple[str, str],
) -> dict[str, tuple[object, int]]:
    """The result of `work` with each fault, and the number of calls. All faults are tested concurrently."""

    def outcome(name: str) -> tuple[object, int]:
        with faulty_endpoint(store) as endpoint, endpoint.failing(faults[name], times=times) as calls:
            client = aws.create_client(DYNAMODB, endpoint.url, REGION)
            try:
                return work(name, DynamoLog(client, *tables)), sum(calls.values())
            except Unavailable as failure:
                return str(failure).partition(" ")[0], sum(calls.values())
            finally:
                client.close()

    with ThreadPoolExecutor(len(faults)) as threads:
        return dict(zip(faults, threads.map(outcome, faults), strict=True))


def test_failing_read_raises_unavailable_after_few_attempts(
    ministack: str, ministack_tables: tuple[str, str], aws_environment: None
) -> None:
    del aws_environment
    began = time.monotonic()
    results = run_with_faults(TRANSIENT, ministack, float("inf"), lambda _, log: log.head(1), ministack_tables)
    assert {fault: result for fault, (result, _) in results.items()} == dict.fromkeys(TRANSIENT, "DynamoDB")
    assert {fault: calls for fault, (_, calls) in results.items() if calls > MAX_ATTEMPTS} == {}
    assert time.monotonic() - began < 2 * MAX_CALL_S


def test_append_with_lost_response_is_written_once(
    ministack: str, ministack_tables: tuple[str, str], aws_environment: None
) -> None:
    """The fault lasts longer than the retries of the AWS client, so the appender repeats the write."""
    del aws_environment
    faults = {f"{fault}, {kind}": how for fault, how in AMBIGUOUS.items() for kind in ("plain", "keyed")}
    servers = dict(zip(faults, count(1), strict=False))

    def write(name: str, log: DynamoLog) -> list[str]:
        key = "k" if name.endswith("keyed") else None
        request = an_append(request_id=name, server=servers[name], idempotency_key=key)
        outcome = Appender(log, lambda: NOW_S * 1000).append(request)
        assert isinstance(outcome, Appended)
        return [commit.request_id for commit in log.read(servers[name], 0)]

    results = run_with_faults(faults, ministack, MAX_ATTEMPTS + 2, write, ministack_tables)
    assert {name: result for name, (result, _) in results.items()} == {name: [name] for name in faults}


def test_failure_is_503_and_the_next_request_succeeds(log: DynamoLog, broken: FaultyEndpoint) -> None:
    assert append("before").status == 201
    with broken.failing(respond_with_error("InternalServerError", 500)):
        answer = invoke("GET", "/events")
    assert answer.outcome == (503, "1")
    assert answer.json["detail"].startswith("DynamoDB is temporarily unavailable: ")
    assert invoke("GET", "/events").json["eventSnapshots"][0]["type"] == types_in(log) == ["before"]


def test_html_response_with_status_200_is_a_failure(log: DynamoLog, broken: FaultyEndpoint) -> None:
    """A proxy responds with 200 to a write that it has not forwarded."""
    with broken.failing(respond_with_html, "PutItem"):
        answer = append("no", left_s=3.0)
    assert (answer.outcome, types_in(log)) == ((503, "1"), [])


def test_append_without_response_can_be_repeated_with_its_key(log: DynamoLog, broken: FaultyEndpoint) -> None:
    with broken.failing(lose_response, "PutItem"):
        answer = append("once", left_s=3.0, key="k")
    assert (answer.outcome, answer.seconds < 3.0) == ((503, "1"), True)
    again = append("once", key="k")
    assert (again.status, again.headers.get("Idempotent-Replayed"), types_in(log)) == (200, "true", ["once"])


def test_unavailable_views_table_does_not_block_appends(
    log: DynamoLog, broken: FaultyEndpoint, ministack_tables: tuple[str, str]
) -> None:
    with broken.failing(cut_connection, table=ministack_tables[1]):
        assert append("plain").status == 201
        assert invoke("GET", "/events").json["eventSnapshots"][0]["type"] == ["plain"]
        assert invoke("POST", "/events/latest", {}).outcome == (503, "1")
    assert types_in(log) == ["plain"]


def test_batch_that_stays_unprocessed_is_503(log: DynamoLog, broken: FaultyEndpoint) -> None:
    assert append("before").status == 201
    with broken.failing(leave_batch_unprocessed, "BatchGetItem") as calls:
        answer = invoke("POST", "/events/latest", {}, left_s=3.0)
    assert (answer.outcome, answer.seconds < 3.0, calls["BatchGetItem"] <= 10) == ((503, "1"), True, True)
    assert types_in(log) == ["before"]


@pytest.mark.parametrize("operation", ["append", "read", "poll"])
def test_hanging_store_is_503_before_the_lambda_timeout(operation: str, log: DynamoLog, broken: FaultyEndpoint) -> None:
    left_s = 4.0
    with broken.failing(broken.hang) as calls:
        answer = {
            "append": lambda: append("no", left_s),
            "read": lambda: invoke("GET", "/events", left_s=left_s),
            "poll": lambda: invoke("GET", "/events", left_s=left_s, timeout="25s"),
        }[operation]()
    assert answer.outcome == (503, "1")
    assert (answer.seconds < left_s, sum(calls.values()) < 10) == (True, True)
    assert types_in(log) == []


def test_redelivered_messages_are_written_once(log: DynamoLog, broken: FaultyEndpoint) -> None:
    wiring.get_components().log.organizations.create("other")
    with broken.failing(lose_response, "PutItem"):
        failed = INGEST(payload("sqs_fifo_two_organizations"), Context(3.0))
    sent = payload("sqs_fifo_two_organizations")["Records"]
    assert {failure["itemIdentifier"] for failure in failed["batchItemFailures"]} == {
        record["messageId"] for record in sent
    }
    assert INGEST(payload("sqs_fifo_redelivered"), Context(29.0)) == {"batchItemFailures": []}
    stored = [event.fields.key for server in (1, 2) for commit in log.read(server, 0) for event in commit.events]
    assert stored == ["/job/117", "/job/117", "/job/118", "/job/1", "/job/1"]


@pytest.mark.parametrize("fault", PERMANENT)
def test_permanent_error_is_not_retried(fault: str, log: DynamoLog, broken: FaultyEndpoint) -> None:
    with broken.failing(PERMANENT[fault]) as calls:
        answer = append("no")
    assert (answer.outcome, sum(calls.values()), types_in(log)) == ((500, None), 1, [])
