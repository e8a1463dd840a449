"""Events on buses of EventBridge: ministack forwards them to a queue; prepared responses for failures."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from chalicelib.adapters.aws.client import EVENTBRIDGE, create_client
from chalicelib.adapters.aws.connection_pool import Response
from chalicelib.adapters.event_bus import EventBus, find_bus
from chalicelib.domain.errors import NotDelivered, RateLimited, Unavailable, Undeliverable
from chalicelib.domain.notifications.delivery import BusEvent
from tests.adapters.aws.transports import create_test_client
from tests.torture.stores import REGION

BUS = f"arn:aws:events:{REGION}:000000000000:event-bus/alerts"
OTHER = f"arn:aws:events:{REGION}:111111111111:event-bus/alerts"
EVENT = BusEvent("1.7.1/ops", "alerts", "job/finish/n1/backup", 1_700_000_000_000_001, '{"id":"1.7.1/ops"}')


@pytest.fixture(name="queue")
def a_queue_behind_the_bus(ministack: str, aws_environment: None) -> Iterator[Any]:  # noqa: ARG001
    """A queue that receives the events of the bus `alerts` with the source `annals`."""
    events = boto3.client("events", endpoint_url=ministack, region_name=REGION)
    queue = boto3.resource("sqs", endpoint_url=ministack, region_name=REGION).create_queue(QueueName="alerts")
    events.create_event_bus(Name="alerts")
    events.put_rule(Name="all", EventBusName="alerts", EventPattern='{"source":["annals"]}')
    target = {"Id": "queue", "Arn": queue.attributes["QueueArn"]}
    events.put_targets(Rule="all", EventBusName="alerts", Targets=[target])
    yield queue
    queue.delete()


def test_put_event_arrives_at_targets_of_the_bus(ministack: str, queue: Any) -> None:
    client = create_client(EVENTBRIDGE, ministack, REGION)
    EventBus(lambda: client, [BUS]).put(EVENT)
    (message,) = queue.receive_messages(WaitTimeSeconds=10)
    received = json.loads(message.body)
    client.close()
    assert (received["source"], received["detail-type"]) == ("annals", "job/finish/n1/backup")
    assert received["detail"] == {"id": "1.7.1/ops"}


class _Answering:
    """A transport with one response. Records the request."""

    host = "events.example"

    def __init__(self, status: int, content: object) -> None:
        self._response = Response(status, json.dumps(content).encode())
        self.requests: list[Any] = []

    def post(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Response:
        del timeout_s
        self.requests.append((headers["x-amz-target"], json.loads(body)))
        return self._response

    def close(self) -> None:
        pass


def put_with_response(status: int, content: object) -> list[Any]:
    """Put an event, and return the requests."""
    transport = _Answering(status, content)
    EventBus(lambda: create_test_client(transport, EVENTBRIDGE), [BUS]).put(EVENT)
    return transport.requests


def test_put_sends_one_entry() -> None:
    entry = {
        "Source": "annals",
        "DetailType": "job/finish/n1/backup",
        "Detail": '{"id":"1.7.1/ops"}',
        "EventBusName": BUS,
        "Time": 1_700_000_000,
    }
    response = {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}
    assert put_with_response(200, response) == [("AWSEvents.PutEvents", {"Entries": [entry]})]


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "ValidationException", Undeliverable),
        (400, "ResourceNotFoundException", Undeliverable),
        (400, "AccessDeniedException", NotDelivered),
        (400, "ThrottlingException", Unavailable),
        (500, "InternalException", Unavailable),
    ],
)
def test_rejected_call_raises(status: int, code: str, expected: type[Exception]) -> None:
    with pytest.raises(expected, match=code) as raised:
        put_with_response(status, {"__type": code, "message": "no"})
    assert type(raised.value) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("MalformedDetail", Undeliverable),
        ("ThrottlingException", RateLimited),
        ("InternalFailure", NotDelivered),
    ],
)
def test_rejected_entry_raises(code: str, expected: type[NotDelivered]) -> None:
    content = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": code, "ErrorMessage": "no"}]}
    with pytest.raises(NotDelivered, match=rf"^EventBridge rejected the event: {code}: no$") as raised:
        put_with_response(200, content)
    assert type(raised.value) is expected


@pytest.mark.parametrize(
    ("bus", "allowed"), [("alerts", [BUS]), (BUS, [BUS]), (BUS, [BUS, OTHER]), ("alerts", ["x:event-bus/alert", BUS])]
)
def test_find_bus_returns_allowed_arn(bus: str, allowed: list[str]) -> None:
    assert find_bus(bus, allowed) == BUS


@pytest.mark.parametrize(
    ("bus", "allowed", "reason"),
    [
        ("alerts", [], "is not an allowed event bus"),
        ("default", [BUS], "is not an allowed event bus"),
        (OTHER, [BUS], "is not an allowed event bus"),
        ("alerts", [BUS, OTHER], "is the name of several allowed event buses"),
    ],
)
def test_bus_that_is_not_allowed_is_refused(bus: str, allowed: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        find_bus(bus, allowed)
    refused = BusEvent("1.7.1/ops", bus, "a", 0, "{}")
    with pytest.raises(Undeliverable, match=reason):
        EventBus(lambda: create_test_client(_Answering(200, {}), EVENTBRIDGE), allowed).put(refused)
