"""The functions for the stream, the outbox queue and the schedule, called with recorded AWS events."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import app
from chalicelib import wiring
from chalicelib.adapters.queue.sqs_outbox import SqsOutbox
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.ids import Id
from chalicelib.domain.expectations.expectation import Expectation
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.delivery_message import DeliveryMessage
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.organizations.organization import configuration_log, inbox_log
from chalicelib.domain.views.record import PROJECTOR
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.lambda_events import sqs, streams
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.for_each import for_each, raise_all
from chalicelib.wiring import Components
from tests.adapters.channels.queues import create_queue, open_client, receive_batch

EVENTS = Path(__file__).parent.parent / "events"
Function = Callable[[dict[str, Any], Any], Any]
PROJECT_VIEWS: Function = app.project
OBSERVE: Function = app.observe
DELIVER: Function = app.deliver
CLEAN: Function = app.clean
NO_FAILURES: dict[str, list[dict[str, str]]] = {"batchItemFailures": []}
FIRST_SEQUENCE_NUMBER = 4421584500000000017450439089
"""Sequence number of the first stream record. The others follow in steps of 7."""


class Context:
    """The context that Lambda passes to a function."""

    def __init__(self, remaining_ms: int = 60_000) -> None:
        self._remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._remaining_ms


@pytest.fixture
def queue_url(ministack: str, aws_environment: None) -> str:  # noqa: ARG001
    with open_client(ministack) as client:
        return create_queue(client)


@pytest.fixture
def components(
    ministack: str, ministack_tables: tuple[str, str], queue_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Components]:
    """Components of a function with acme (1) and other (2). The observer ops of acme notifies anna in the app."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    monkeypatch.setenv("STORE", "dynamodb")
    monkeypatch.setenv("LOG_TABLE", ministack_tables[0])
    monkeypatch.setenv("VIEWS_TABLE", ministack_tables[1])
    monkeypatch.setenv("OUTBOX_QUEUE_URL", queue_url)
    monkeypatch.setenv("CLEAN_TIMEOUT", "60")
    _reset_process()
    built = wiring.get_components()
    for name in ("acme", "other"):
        built.log.organizations.create(name)
    built.notifications.observers.put(1, "ops", Configuration(channel="app", config={"to": "anna"}))
    yield built
    built.close()
    _reset_process()


def payload(name: str) -> dict[str, Any]:
    """A recorded Lambda event."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


def publish(components: Components, server: int, *numbers: int, **props: str) -> None:
    """Publish create events of jobs, one commit each."""
    for number in numbers:
        fields = {"event": "create", "id": number, "node": "n1", "type": "backup", "params": {}, "props": props}
        components.log.publisher.publish(server, [JOB_VOCABULARY.new_event({**fields, "time": 1573251510})])


def projected_session(components: Components, server: int) -> int:
    """The session up to which views are built."""
    return load_checkpoint(PROJECTOR, server, components.stores.views).head.session


def notified_events(components: Components) -> list[str]:
    """Ids of the events about which anna was notified."""
    return [
        str(Id(**event.fields.payload["data"]["event"]))
        for commit in components.stores.log.read(inbox_log(1), 0)
        for event in commit.events
    ]


def queued_deliveries(queue_url: str, ministack: str) -> list[Delivery]:
    """Receive the deliveries in the outbox queue."""
    with open_client(ministack) as client:
        messages = sqs.parse_delivery_messages(receive_batch(client, queue_url))
    return [received.message.delivery for received in messages if isinstance(received.message, DeliveryMessage)]


def redeliver(*numbers: int) -> dict[str, list[dict[str, str]]]:
    """The response that makes SQS redeliver these messages."""
    return {"batchItemFailures": [{"itemIdentifier": f"00000000-0000-4000-8000-{n:012d}"} for n in numbers]}


def redeliver_from(number: int) -> dict[str, list[dict[str, str]]]:
    """The response that makes Lambda redeliver the stream from this record on."""
    return {"batchItemFailures": [{"itemIdentifier": str(FIRST_SEQUENCE_NUMBER + 7 * number)}]}


@pytest.mark.parametrize(
    ("name", "projected", "observed"),
    [
        ("dynamodb_stream_two_organizations", [1, 2], [1, 2]),
        ("dynamodb_stream_all_kinds", [0, -2, 1, -3, 2, -4, -5], [1, 2]),
    ],
)
def test_streams_list_each_log_once(name: str, projected: list[int], observed: list[int]) -> None:
    assert (streams.logs_to_project(payload(name)), streams.logs_to_observe(payload(name))) == (projected, observed)


@pytest.mark.parametrize(
    ("failures", "response"),
    [
        ({}, NO_FAILURES),
        ({1: OSError()}, redeliver_from(4)),
        ({2: OSError(), 1: OSError()}, redeliver_from(4)),
        ({2: OSError()}, redeliver_from(6)),
        ({-5: OSError(), 2: OSError()}, redeliver_from(6)),
        ({3: OSError()}, NO_FAILURES),
    ],
)
def test_stream_response_names_first_failed_record(failures: dict[int, Exception], response: dict[str, Any]) -> None:
    assert streams.partial_batch_response(payload("dynamodb_stream_all_kinds"), failures) == response


def test_project_updates_views_of_all_logs_in_stream(components: Components) -> None:
    publish(components, 1, 117, 118)
    publish(components, 2, 1)
    DELIVER(payload("sqs_fifo_deliveries"), Context())
    assert PROJECT_VIEWS(payload("dynamodb_stream_all_kinds"), Context()) == NO_FAILURES
    assert [projected_session(components, server) for server in (0, 1, 2, inbox_log(1))] == [2, 2, 1, 2]
    assert projected_session(components, configuration_log(1)) == 1


def test_project_repeated_event_succeeds(components: Components) -> None:
    publish(components, 1, 117)
    for _ in range(2):
        assert PROJECT_VIEWS(payload("dynamodb_stream_two_organizations"), Context()) == NO_FAILURES
    assert projected_session(components, 1) == 1


def test_observe_repeated_event_queues_deliveries_once(components: Components, queue_url: str, ministack: str) -> None:
    publish(components, 1, 117, 118)
    publish(components, 2, 1)
    for _ in range(2):
        assert OBSERVE(payload("dynamodb_stream_two_organizations"), Context()) == NO_FAILURES
    assert sorted(queued_deliveries(queue_url, ministack), key=lambda one: one.id) == [
        Delivery("1.1.1/ops", 1, "ops", Id(1, 1, 1), job_key(components, 1), "anna"),
        Delivery("1.2.1/ops", 1, "ops", Id(1, 2, 1), job_key(components, 2), "anna"),
    ]


def test_project_unreadable_log_fails_and_others_succeed(
    components: Components, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publish(components, 1, 117)
    publish(components, 2, 1)
    read = components.stores.log.read

    def failing_read(server: int, after: int, limit: int | None = None) -> Any:
        if server == 1:
            raise Unavailable("no response")
        return read(server, after, limit)

    monkeypatch.setattr(components.stores.log, "read", failing_read)
    assert PROJECT_VIEWS(payload("dynamodb_stream_all_kinds"), Context()) == redeliver_from(4)
    assert (projected_session(components, 1), projected_session(components, 2)) == (0, 1)
    assert "the work for 1 failed" in caplog.text


def test_observe_failed_queue_is_retried(
    components: Components, ministack: str, queue_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(components, 1, 117)
    queue = cast(SqsOutbox, components.stores.outbox)._queue
    monkeypatch.setattr(queue, "_url", f"{queue_url}-gone.fifo")
    assert OBSERVE(payload("dynamodb_stream_two_organizations"), Context()) == redeliver_from(1)
    monkeypatch.setattr(queue, "_url", queue_url)
    assert OBSERVE(payload("dynamodb_stream_two_organizations"), Context()) == NO_FAILURES
    assert [one.id for one in queued_deliveries(queue_url, ministack)] == ["1.1.1/ops"]


def test_deliver_redelivered_messages_sends_once(components: Components) -> None:
    publish(components, 1, 117, 118, 119)
    assert DELIVER(payload("sqs_fifo_deliveries"), Context()) == NO_FAILURES
    assert DELIVER(payload("sqs_fifo_deliveries_redelivered"), Context()) == NO_FAILURES
    event_ids = notified_events(components)
    assert sorted(event_ids) == ["1.1.1", "1.2.1", "1.3.1"]
    assert event_ids.index("1.1.1") < event_ids.index("1.3.1")
    assert components.stores.outbox.counts(1, "ops") == {"waiting": -1, "parked": 0, "sent": 3, "dropped": 0}


def test_deliver_unreadable_message_blocks_only_its_group(components: Components) -> None:
    publish(components, 1, 117, 118, 119)
    assert DELIVER(payload("sqs_fifo_deliveries_one_unreadable"), Context()) == redeliver(1, 3)
    assert notified_events(components) == ["1.2.1"]


def test_deliver_without_time_redelivers_all(components: Components) -> None:
    publish(components, 1, 117, 118, 119)
    assert DELIVER(payload("sqs_fifo_deliveries"), Context(remaining_ms=14_999)) == redeliver(1, 2, 3)
    assert notified_events(components) == []


def test_observe_then_deliver_notifies_user(components: Components, queue_url: str, ministack: str) -> None:
    publish(components, 1, 117)
    OBSERVE(payload("dynamodb_stream_two_organizations"), Context())
    with open_client(ministack) as client:
        assert DELIVER(receive_batch(client, queue_url), Context()) == NO_FAILURES
    assert notified_events(components) == ["1.1.1"]


def test_clean_closes_silent_jobs_of_all_organizations(components: Components) -> None:
    for server in (1, 2):
        publish(components, server, 117, clean_timeout="0")
        publish(components, server, 118)
    PROJECT_VIEWS(payload("dynamodb_stream_two_organizations"), Context())
    deadline = time.monotonic() + 60
    while components.stores.log.head(1).session < 3 or components.stores.log.head(2).session < 3:
        assert time.monotonic() < deadline
        CLEAN(payload("scheduled_event"), Context())
    CLEAN({}, Context())
    for server in (1, 2):
        (event,) = components.stores.log.commit(server, 3).events  # type: ignore[union-attr]
        fields = JOB_VOCABULARY.native_json(event) or {}
        assert (fields["event"], fields["id"]) == ("clean", 117)
        assert components.stores.log.head(server).session == 3


def test_clean_raises_alarms_of_expectations(components: Components) -> None:
    """The functions need nothing but the stream and the schedule."""
    components.expectations.registry.put(1, "nightly", Expectation(type="backup", max_duration=1))
    publish(components, 1, 117)
    PROJECT_VIEWS(payload("dynamodb_stream_all_kinds"), Context())
    deadline = time.monotonic() + 60
    while components.stores.log.head(1).session < 2:
        assert time.monotonic() < deadline
        CLEAN(payload("scheduled_event"), Context())
    CLEAN({}, Context())
    (event,) = components.stores.log.commit(1, 2).events  # type: ignore[union-attr]
    assert event.fields.type == ("job", "overdue", "", "backup")
    assert components.stores.log.head(1).session == 2
    assert components.expectations.statuses.status(1, "nightly").state == "overdue"


def test_clean_without_time_closes_nothing(components: Components) -> None:
    publish(components, 1, 117, clean_timeout="0")
    PROJECT_VIEWS(payload("dynamodb_stream_two_organizations"), Context())
    CLEAN(payload("scheduled_event"), Context(remaining_ms=1_000))
    assert components.stores.log.head(1).session == 1


def test_for_each_failure_does_not_stop_others(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def work(server: int) -> None:
        if server == 2:
            raise Unavailable("no response")
        done.append(server)

    assert [str(failure) for failure in for_each([1, 2, 3], work).values()] == ["no response"]
    with pytest.raises(ExceptionGroup, match=r"the work failed for \[2\]"):
        for_each([1, 2, 3], work, on_error=raise_all)
    assert done == [1, 3, 1, 3]
    assert "the work for 2 failed" in caplog.text


def job_key(components: Components, session: int) -> str:
    """The key of the first event of a session."""
    commit = components.stores.log.commit(1, session)
    assert commit is not None
    return commit.events[0].fields.key or ""


def _reset_process() -> None:
    wiring.get_components.cache_clear()
    app._deliverer.cache_clear()
