"""The AWS client: requests, retries and timeouts."""

import threading
from collections.abc import Mapping, Sequence
from http.client import RemoteDisconnected
from typing import Any

import pytest

from chalicelib import __version__
from chalicelib.adapters.aws.client import DEFAULT_RETRY_POLICY, DYNAMODB, GLUE, Client, RetryPolicy, create_client
from chalicelib.adapters.aws.connection_pool import Response
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.aws.retry_budget import CAPACITY, RETRY_COST
from chalicelib.adapters.aws.sigv4 import Credentials
from chalicelib.adapters.aws.time_budget import RESPONSE_RESERVE_S, time_limit
from chalicelib.domain.backoff import Backoff
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.redaction import safe_description
from tests.adapters.aws.endpoints import Reply, recording_server
from tests.torture.stores import REGION

FOUND = Response(200, b'{"Item":{"n":{"N":"1"}}}')
THROTTLED = Response(400, b'{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slowly"}')
REJECTED = Response(400, b'{"__type":"com.amazon.coral.validate#ValidationException","message":"no"}')
BROKEN = Response(500, b'{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"oh"}')
HTML_PAGE = b"<html>An error page of a proxy.</html>"


class FakeTransport:
    """A transport with prepared outcomes."""

    host = "h"

    def __init__(self, *outcomes: Response | Exception) -> None:
        self._outcomes = iter(outcomes)
        self.requests: list[tuple[Mapping[str, str], bytes, float]] = []

    def post(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Response:
        self.requests.append((headers, body, timeout_s))
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        pass


class ClientTrial:
    """A client on a fake transport, which records its retries and delays."""

    def __init__(self, *outcomes: Response | Exception, retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY) -> None:
        self.transport, self.delays, self.retries = FakeTransport(*outcomes), list[float](), list[None]()
        self.client = Client(
            DYNAMODB,
            self.transport,
            REGION,
            lambda: Credentials("a", "s"),
            lambda: self.retries.append(None),
            retry_policy,
            self.delays.append,
        )

    def call(self) -> dict[str, Any]:
        return self.client.call("GetItem", {"TableName": "log"})

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of requests, retries and delays."""
        return len(self.transport.requests), len(self.retries), len(self.delays)


@pytest.mark.usefixtures("aws_environment")
def test_call_sends_json_with_target_header() -> None:
    with recording_server(Reply(content=FOUND.content)) as (endpoint, requests):
        client = create_client(GLUE, f"{endpoint}/", REGION)
        assert client.call("StartJobRun", {"JobName": "Grüße"}) == {"Item": {"n": {"N": "1"}}}
        client.close()
    (request,) = requests
    assert request.body == '{"JobName":"Grüße"}'.encode()
    assert request.headers.keys() == {
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "x-amz-date",
        "x-amz-target",
    }
    assert (request.headers["x-amz-target"], request.headers["content-type"], request.headers["host"]) == (
        "AWSGlue.StartJobRun",
        "application/x-amz-json-1.1",
        endpoint.removeprefix("http://"),
    )
    assert request.headers["user-agent"].startswith(f"annals/{__version__} python/3.")


def test_call_errors_name_operation_and_request_id() -> None:
    rejected = ClientTrial(Response(REJECTED.status, REJECTED.content, "R1"))
    with pytest.raises(ServiceError, match=r"^GetItem: ValidationException: no \(request id R1\)$") as error:
        rejected.call()
    assert safe_description(error.value) == "ServiceError: GetItem: ValidationException (request id R1)"
    broken = ClientTrial(*[Response(BROKEN.status, BROKEN.content, f"R{n}") for n in (1, 2, 3)])
    with pytest.raises(Unavailable, match=r": GetItem: InternalServerError: oh \(request id R3\)$"):
        broken.call()
    with pytest.raises(Unavailable, match=r"^DynamoDB cannot be reached: GetItem: reset$"):
        ClientTrial(*[ConnectionResetError("reset")] * 3).call()


def test_failed_calls_stop_retrying_when_budget_is_used_up() -> None:
    trial = ClientTrial(*[BROKEN] * 1_000)
    attempts = []
    for _ in range(100):
        before = len(trial.transport.requests)
        with pytest.raises(Unavailable):
            trial.call()
        attempts.append(len(trial.transport.requests) - before)
    assert attempts == [3] * (CAPACITY // (2 * RETRY_COST)) + [1] * 50
    with pytest.raises(Unavailable, match="not retried, because many other calls failed, too"):
        trial.call()


def test_successful_calls_refill_retry_budget() -> None:
    failing_calls = CAPACITY // (2 * RETRY_COST)
    trial = ClientTrial(*[BROKEN] * 3 * failing_calls, *[FOUND] * RETRY_COST, BROKEN, FOUND)
    for _ in range(failing_calls):
        with pytest.raises(Unavailable):
            trial.call()
    for _ in range(RETRY_COST):
        trial.call()
    before = trial.counts[1]
    trial.call()
    assert trial.counts[1] == before + 1


@pytest.mark.parametrize(
    "failure",
    [
        THROTTLED,
        BROKEN,
        Response(503, HTML_PAGE),
        Response(200, HTML_PAGE),
        Response(200, b"[]"),
        Response(200, b'{"Item":'),
        ConnectionResetError("reset"),
        TimeoutError("timed out"),
        RemoteDisconnected("closed"),
    ],
    ids=lambda failure: str(failure)[:40],
)
def test_call_retryable_failure_retries_then_gives_up(failure: Response | Exception) -> None:
    trial = ClientTrial(failure, failure, FOUND)
    assert trial.call() == {"Item": {"n": {"N": "1"}}}
    assert trial.counts == (3, 2, 2)
    failing = ClientTrial(failure, failure, failure, FOUND)
    with pytest.raises(Unavailable, match=r"DynamoDB (is temporarily unavailable|cannot be reached): "):
        failing.call()
    assert failing.counts == (3, 2, 2)


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (REJECTED, "ValidationException"),
        (Response(400, b'{"__type":"EntityNotFoundException","Message":"no"}'), "EntityNotFoundException"),
        (Response(403, HTML_PAGE), ""),
        (Response(413, b""), ""),
        (Response(301, b"{}"), ""),
    ],
)
def test_call_rejected_raises_service_error_at_once(response: Response, code: str) -> None:
    trial = ClientTrial(response, FOUND)
    with pytest.raises(ServiceError, match=f"GetItem: {code or response.status}: ") as error:
        trial.call()
    assert (error.value.code, error.value.status, trial.counts) == (code, response.status, (1, 0, 0))


@pytest.mark.parametrize(
    ("failure", "max_delays_s"),
    [(BROKEN, (0.1, 0.2, 0.4)), (TimeoutError("timed out"), (0.1, 0.2, 0.4)), (THROTTLED, (1.0, 2.0, 4.0))],
    ids=["server error", "timeout", "throttled"],
)
def test_call_backoff_doubles_with_full_jitter(failure: Response | Exception, max_delays_s: tuple[float, ...]) -> None:
    delays_of_trials = []
    for _ in range(200):
        trial = ClientTrial(failure, failure, failure, FOUND, retry_policy=RetryPolicy(max_attempts=4))
        trial.call()
        delays_of_trials.append(trial.delays)
    for delays, max_delay_s in zip(zip(*delays_of_trials, strict=True), max_delays_s, strict=True):
        assert 0 <= min(delays) < max_delay_s * 0.1
        assert max_delay_s * 0.9 < max(delays) <= max_delay_s


@pytest.mark.parametrize(
    ("retry_policy", "attempts"),
    [
        (RetryPolicy(max_attempts=1), 1),
        (RetryPolicy(backoff=Backoff(1e6)), 1),
        (RetryPolicy(max_attempts=20, backoff=Backoff(1e-9), call_timeout_s=30.0), 20),
        (RetryPolicy(max_attempts=50, backoff=Backoff(1.0), call_timeout_s=30.0), range(2, 12)),
    ],
    ids=["one attempt", "first delay exceeds timeout", "all attempts", "delays exceed timeout"],
)
def test_call_stops_after_max_attempts_or_timeout(retry_policy: RetryPolicy, attempts: int | Sequence[int]) -> None:
    trial = ClientTrial(*[BROKEN] * 60, retry_policy=retry_policy)
    with pytest.raises(Unavailable, match="DynamoDB is temporarily unavailable: GetItem: InternalServerError: oh"):
        trial.call()
    requests = len(trial.transport.requests)
    assert requests == attempts if isinstance(attempts, int) else requests in attempts


def test_call_attempt_timeout_is_capped_by_call_timeout() -> None:
    trial = ClientTrial(FOUND, retry_policy=RetryPolicy(attempt_timeout_s=5.0, call_timeout_s=0.5))
    trial.call()
    ((_, _, timeout_s),) = trial.transport.requests
    assert 0.4 < timeout_s <= 0.5


def test_call_after_long_pause_has_positive_timeout() -> None:
    """The pause before a retry was longer than planned, and the deadline has passed."""
    policy = RetryPolicy(call_timeout_s=0.05, backoff=Backoff(1e-6))
    trial = ClientTrial(BROKEN, FOUND, retry_policy=policy)

    def oversleep(_: float) -> None:
        threading.Event().wait(0.1)

    trial.client._sleep = oversleep
    trial.call()
    assert 0 < trial.transport.requests[1][2] <= 0.05


def test_call_in_time_limit_stops_before_it() -> None:
    trial = ClientTrial(BROKEN, FOUND, retry_policy=RetryPolicy(backoff=Backoff(1e6)))
    with time_limit(RESPONSE_RESERVE_S + 0.5), pytest.raises(Unavailable, match="is temporarily unavailable"):
        trial.call()
    ((_, _, timeout_s),) = trial.transport.requests
    assert 0.4 < timeout_s <= 0.5
    with time_limit(RESPONSE_RESERVE_S), pytest.raises(Unavailable, match="DynamoDB was not called"):
        trial.call()
    assert trial.counts == (1, 0, 0)


def test_call_empty_response_returns_empty_dict() -> None:
    assert ClientTrial(Response(200, b"")).call() == {}


@pytest.mark.usefixtures("aws_environment")
def test_call_corrupt_response_retries() -> None:
    damaged = Reply(content=b'{"Item":{}}', headers={"x-amz-crc32": "1"})
    with recording_server(damaged, Reply(content=FOUND.content)) as (endpoint, requests):
        client = create_client(DYNAMODB, endpoint, REGION, retry_policy=RetryPolicy(backoff=Backoff(0.0)))
        assert client.call("GetItem", {"TableName": "log"}) == {"Item": {"n": {"N": "1"}}}
        client.close()
    assert len({request.port for request in requests}) == 2
