"""A client: what it sends, what it repeats, when it gives up."""

from collections.abc import Mapping, Sequence
from http.client import RemoteDisconnected
from typing import Any

import pytest

from chalicelib.adapters.aws.client import DYNAMODB, GLUE, USUAL, Client, Patience, client
from chalicelib.adapters.aws.connection_pool import Answer
from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.adapters.aws.sigv4 import Credentials
from chalicelib.adapters.aws.time_budget import SPARE_S, within
from chalicelib.domain.errors import Unavailable
from tests.adapters.aws.endpoints import Reply, noting_server
from tests.torture.stores import REGION

FOUND = Answer(200, b'{"Item":{"n":{"N":"1"}}}')
THROTTLED = Answer(400, b'{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slowly"}')
REFUSED = Answer(400, b'{"__type":"com.amazon.coral.validate#ValidationException","message":"no"}')
BROKEN = Answer(500, b'{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"oh"}')
PAGE = b"<html>Somebody on the way has something to say.</html>"


class Wire:
    """Gives what it is told to, one after the other."""

    host = "h"

    def __init__(self, *outcomes: Answer | Exception) -> None:
        self._outcomes = iter(outcomes)
        self.asked: list[tuple[Mapping[str, str], bytes, float]] = []

    def exchange(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
        self.asked.append((headers, body, timeout_s))
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        pass


class Trial:
    """A client on such a wire, with all that it does besides."""

    def __init__(self, *outcomes: Answer | Exception, patience: Patience = USUAL) -> None:
        self.wire, self.pauses, self.repeats = Wire(*outcomes), list[float](), list[None]()
        self.client = Client(
            DYNAMODB,
            self.wire,
            REGION,
            lambda: Credentials("a", "s"),
            lambda: self.repeats.append(None),
            patience,
            self.pauses.append,
        )

    def call(self) -> dict[str, Any]:
        return self.client.call("GetItem", {"TableName": "log"})

    @property
    def done(self) -> tuple[int, int, int]:
        """How often it asked, repeated and paused."""
        return len(self.wire.asked), len(self.repeats), len(self.pauses)


@pytest.mark.usefixtures("aws_environment")
def test_a_request_is_json_that_names_its_operation() -> None:
    with noting_server(Reply(content=FOUND.content)) as (endpoint, requests):
        opened = client(GLUE, f"{endpoint}/", REGION)
        assert opened.call("StartJobRun", {"JobName": "Grüße"}) == {"Item": {"n": {"N": "1"}}}
        opened.close()
    (request,) = requests
    assert request.body == '{"JobName":"Grüße"}'.encode()
    assert request.headers.keys() == {
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "x-amz-date",
        "x-amz-target",
    }
    assert (request.headers["x-amz-target"], request.headers["content-type"], request.headers["host"]) == (
        "AWSGlue.StartJobRun",
        "application/x-amz-json-1.1",
        endpoint.removeprefix("http://"),
    )


@pytest.mark.parametrize(
    "failure",
    [
        THROTTLED,
        BROKEN,
        Answer(503, PAGE),
        Answer(200, PAGE),
        Answer(200, b"[]"),
        Answer(200, b'{"Item":'),
        ConnectionResetError("reset"),
        TimeoutError("timed out"),
        RemoteDisconnected("closed"),
    ],
    ids=lambda failure: str(failure)[:40],
)
def test_what_may_succeed_at_another_time_is_repeated(failure: Answer | Exception) -> None:
    trial = Trial(failure, failure, FOUND)
    assert trial.call() == {"Item": {"n": {"N": "1"}}}
    assert trial.done == (3, 2, 2)
    in_vain = Trial(failure, failure, failure, FOUND)
    with pytest.raises(Unavailable, match=r"DynamoDB (does not answer|cannot be reached): "):
        in_vain.call()
    assert in_vain.done == (3, 2, 2)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (REFUSED, "ValidationException"),
        (Answer(400, b'{"__type":"EntityNotFoundException","Message":"no"}'), "EntityNotFoundException"),
        (Answer(403, PAGE), ""),
        (Answer(413, b""), ""),
        (Answer(301, b"{}"), ""),
    ],
)
def test_a_refusal_is_not_repeated_and_says_why(answer: Answer, code: str) -> None:
    trial = Trial(answer, FOUND)
    with pytest.raises(Refusal, match=f"GetItem: {code or answer.status}: ") as refusal:
        trial.call()
    assert (refusal.value.code, refusal.value.status, trial.done) == (code, answer.status, (1, 0, 0))


@pytest.mark.parametrize(
    ("failure", "longest_s"),
    [(BROKEN, (0.1, 0.2, 0.4)), (TimeoutError("timed out"), (0.1, 0.2, 0.4)), (THROTTLED, (1.0, 2.0, 4.0))],
    ids=["a failure", "no answer", "too fast"],
)
def test_pauses_grow_are_left_to_chance_and_are_long_for_who_is_too_fast(
    failure: Answer | Exception, longest_s: tuple[float, ...]
) -> None:
    found = []
    for _ in range(200):
        trial = Trial(failure, failure, failure, FOUND, patience=Patience(attempts=4))
        trial.call()
        found.append(trial.pauses)
    for pauses, longest in zip(zip(*found, strict=True), longest_s, strict=True):
        assert 0 <= min(pauses) < longest * 0.1
        assert longest * 0.9 < max(pauses) <= longest


@pytest.mark.parametrize(
    ("patience", "attempts"),
    [
        (Patience(attempts=1), 1),
        (Patience(first_pause_s=1e6), 1),
        (Patience(attempts=20, first_pause_s=1e-9, call_s=30.0), 20),
        (Patience(attempts=50, first_pause_s=1.0, call_s=30.0), range(2, 12)),
    ],
    ids=["one attempt", "a pause longer than the time", "all attempts", "pauses longer than the time"],
)
def test_a_call_ends_when_its_attempts_or_its_time_do(patience: Patience, attempts: int | Sequence[int]) -> None:
    trial = Trial(*[BROKEN] * 60, patience=patience)
    with pytest.raises(Unavailable, match="DynamoDB does not answer: GetItem: InternalServerError: oh"):
        trial.call()
    asked = len(trial.wire.asked)
    assert asked == attempts if isinstance(attempts, int) else asked in attempts


def test_no_attempt_waits_longer_than_the_call_may() -> None:
    trial = Trial(FOUND, patience=Patience(attempt_s=5.0, call_s=0.5))
    trial.call()
    ((_, _, timeout_s),) = trial.wire.asked
    assert 0.4 < timeout_s <= 0.5


def test_a_call_ends_before_the_function_is_ended() -> None:
    trial = Trial(BROKEN, FOUND, patience=Patience(first_pause_s=1e6))
    with within(SPARE_S + 0.5), pytest.raises(Unavailable, match="does not answer"):
        trial.call()
    ((_, _, timeout_s),) = trial.wire.asked
    assert 0.4 < timeout_s <= 0.5
    with within(SPARE_S), pytest.raises(Unavailable, match="DynamoDB took too long to answer"):
        trial.call()
    assert trial.done == (1, 0, 0)


def test_an_answer_without_words_says_nothing() -> None:
    assert Trial(Answer(200, b"")).call() == {}


@pytest.mark.usefixtures("aws_environment")
def test_an_answer_that_was_damaged_on_the_way_is_asked_for_again() -> None:
    damaged = Reply(content=b'{"Item":{}}', headers={"x-amz-crc32": "1"})
    with noting_server(damaged, Reply(content=FOUND.content)) as (endpoint, requests):
        opened = client(DYNAMODB, endpoint, REGION, patience=Patience(first_pause_s=0.0))
        assert opened.call("GetItem", {"TableName": "log"}) == {"Item": {"n": {"N": "1"}}}
        opened.close()
    assert len({request.port for request in requests}) == 2
