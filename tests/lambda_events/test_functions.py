"""The functions that streams, the outbox's queue and the schedule wake, called with what Lambda would give them."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import app
from chalicelib import wiring
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.delivery_message import Queued
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.organizations.organization import configuration_of, inbox_of
from chalicelib.domain.views.record import PROJECT
from chalicelib.domain.vocabularies import job
from chalicelib.lambda_events import sqs, streams
from chalicelib.services.consumers.consumer import checkpoint_of
from chalicelib.services.consumers.for_each_server import all_of, each
from chalicelib.wiring import Annals
from tests.adapters.channels.queues import a_client, brought, create_queue

EVENTS = Path(__file__).parent.parent / "events"
Function = Callable[[dict[str, Any], Any], Any]
PROJECT_VIEWS: Function = app.project
OBSERVE: Function = app.observe
DELIVER: Function = app.deliver
CLEAN: Function = app.clean
ALL_WELL: dict[str, list[dict[str, str]]] = {"batchItemFailures": []}
FIRST = 4421584500000000017450439089
"""From here the stream's records are numbered, by sevens."""


class Context:
    """What Lambda says about the call."""

    def __init__(self, left_ms: int = 60_000) -> None:
        self._left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._left_ms


@pytest.fixture
def queue_url(ministack: str, aws_environment: None) -> str:  # noqa: ARG001
    with a_client(ministack) as client:
        return create_queue(client)


@pytest.fixture
def parts(
    ministack: str, ministack_tables: tuple[str, str], queue_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Annals]:
    """A function on AWS as far as it can tell, with acme (1) and other (2); ops of acme tells anna in the app."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    monkeypatch.setenv("STORE", "dynamodb")
    monkeypatch.setenv("LOG_TABLE", ministack_tables[0])
    monkeypatch.setenv("VIEWS_TABLE", ministack_tables[1])
    monkeypatch.setenv("OUTBOX_QUEUE_URL", queue_url)
    monkeypatch.setenv("CLEAN_TIMEOUT", "60")
    _forget()
    found = wiring.annals()
    for name in ("acme", "other"):
        found.organizations.create(name)
    found.observers.put(1, "ops", Configuration(channel="app", config={"to": "anna"}))
    yield found
    found.close()
    _forget()


def payload(name: str) -> dict[str, Any]:
    """A stored Lambda event."""
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return found


def publish(parts: Annals, server: int, *numbers: int, **props: str) -> None:
    """Publish that jobs were created, each in a commit of its own."""
    for number in numbers:
        own = {"event": "create", "id": number, "node": "n1", "type": "backup", "params": {}, "props": props}
        parts.publish(server, [job.new_event({**own, "time": 1573251510})]).result()


def projected_to(parts: Annals, server: int) -> int:
    """The session up to which views are built."""
    return checkpoint_of(PROJECT, server, parts.views).head.session


def inbox(parts: Annals) -> list[str]:
    """The events that anna was told about."""
    return [
        str(Id(**event.stored.payload["data"]["event"]))
        for commit in parts.log.read(inbox_of(1), 0)
        for event in commit.events
    ]


def queued(queue_url: str, ministack: str) -> list[Delivery]:
    """What is in the outbox's queue."""
    with a_client(ministack) as client:
        found = sqs.received(brought(client, queue_url))
    return [one.queued.delivery for one in found if isinstance(one.queued, Queued)]


def failed(*numbers: int) -> dict[str, list[dict[str, str]]]:
    """The answer that these messages have to come again."""
    return {"batchItemFailures": [{"itemIdentifier": f"00000000-0000-4000-8000-{n:012d}"} for n in numbers]}


def failed_from(number: int) -> dict[str, list[dict[str, str]]]:
    """The answer that the stream is to be read again from this record on."""
    return {"batchItemFailures": [{"itemIdentifier": str(FIRST + 7 * number)}]}


@pytest.mark.parametrize(
    ("name", "projected", "observed"),
    [("dynamodb_stream_two_organizations", [1, 2], [1, 2]), ("dynamodb_stream_all_kinds", [0, 1, -3, 2, -5], [1, 2])],
)
def test_a_stream_wakes_for_each_log_once_that_it_is_about(
    name: str, projected: list[int], observed: list[int]
) -> None:
    assert (streams.projected(payload(name)), streams.observed(payload(name))) == (projected, observed)
    assert {configuration_of(1), configuration_of(2)}.isdisjoint(projected)


@pytest.mark.parametrize(
    ("failures", "answer"),
    [
        ({}, ALL_WELL),
        ({1: OSError()}, failed_from(4)),
        ({2: OSError(), 1: OSError()}, failed_from(4)),
        ({2: OSError()}, failed_from(6)),
        ({-5: OSError(), 2: OSError()}, failed_from(6)),
        ({3: OSError()}, ALL_WELL),
    ],
)
def test_a_stream_is_read_again_from_the_first_record_that_failed(
    failures: dict[int, Exception], answer: dict[str, Any]
) -> None:
    assert streams.partial_failures(payload("dynamodb_stream_all_kinds"), failures) == answer


def test_project_builds_the_views_of_all_logs_that_grew(parts: Annals) -> None:
    publish(parts, 1, 117, 118)
    publish(parts, 2, 1)
    DELIVER(payload("sqs_fifo_deliveries"), Context())
    assert PROJECT_VIEWS(payload("dynamodb_stream_all_kinds"), None) == ALL_WELL
    assert [projected_to(parts, server) for server in (0, 1, 2, inbox_of(1))] == [2, 2, 1, 2]
    assert projected_to(parts, configuration_of(1)) == 0


def test_what_woke_it_twice_is_projected_once(parts: Annals) -> None:
    publish(parts, 1, 117)
    for _ in range(2):
        assert PROJECT_VIEWS(payload("dynamodb_stream_two_organizations"), None) == ALL_WELL
    assert projected_to(parts, 1) == 1


def test_observe_puts_in_the_outbox_what_came_once(parts: Annals, queue_url: str, ministack: str) -> None:
    publish(parts, 1, 117, 118)
    publish(parts, 2, 1)
    for _ in range(2):
        assert OBSERVE(payload("dynamodb_stream_two_organizations"), None) == ALL_WELL
    assert sorted(queued(queue_url, ministack), key=lambda one: one.id) == [
        Delivery("1.1.1/ops", 1, "ops", Id(1, 1, 1), job_key(parts, 1), "anna"),
        Delivery("1.2.1/ops", 1, "ops", Id(1, 2, 1), job_key(parts, 2), "anna"),
    ]


def test_one_log_that_cannot_be_read_fails_from_its_first_record_on_and_the_others_are_done(
    parts: Annals, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publish(parts, 1, 117)
    publish(parts, 2, 1)
    read = parts.log.read

    def broken(server: int, after: int, most: int | None = None) -> Any:
        if server == 1:
            raise Unavailable("no answer")
        return read(server, after, most)

    monkeypatch.setattr(parts.log, "read", broken)
    assert PROJECT_VIEWS(payload("dynamodb_stream_all_kinds"), None) == failed_from(4)
    assert (projected_to(parts, 1), projected_to(parts, 2)) == (0, 1)
    assert "the work for server 1 failed" in caplog.text


def test_what_the_queue_does_not_take_is_observed_again(
    parts: Annals, ministack: str, queue_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(parts, 1, 117)
    monkeypatch.setattr(parts.outbox, "_queue_url", f"{queue_url}-gone.fifo")
    assert OBSERVE(payload("dynamodb_stream_two_organizations"), None) == failed_from(1)
    monkeypatch.setattr(parts.outbox, "_queue_url", queue_url)
    assert OBSERVE(payload("dynamodb_stream_two_organizations"), None) == ALL_WELL
    assert [one.id for one in queued(queue_url, ministack)] == ["1.1.1/ops"]


def test_deliver_tells_each_delivery_once(parts: Annals) -> None:
    publish(parts, 1, 117, 118, 119)
    assert DELIVER(payload("sqs_fifo_deliveries"), Context()) == ALL_WELL
    assert DELIVER(payload("sqs_fifo_deliveries_redelivered"), Context()) == ALL_WELL
    told = inbox(parts)
    assert sorted(told) == ["1.1.1", "1.2.1", "1.3.1"]
    assert told.index("1.1.1") < told.index("1.3.1")
    assert parts.outbox.counts(1, "ops") == {"waiting": -1, "parked": 0, "sent": 3, "dropped": 0}


def test_a_message_that_cannot_be_read_holds_up_only_those_behind_it_in_its_group(parts: Annals) -> None:
    publish(parts, 1, 117, 118, 119)
    assert DELIVER(payload("sqs_fifo_deliveries_one_unreadable"), Context()) == failed(1, 3)
    assert inbox(parts) == ["1.2.1"]


def test_without_time_nothing_is_delivered_and_everything_comes_again(parts: Annals) -> None:
    publish(parts, 1, 117, 118, 119)
    assert DELIVER(payload("sqs_fifo_deliveries"), Context(left_ms=14_999)) == failed(1, 2, 3)
    assert inbox(parts) == []


def test_what_is_observed_is_what_is_delivered(parts: Annals, queue_url: str, ministack: str) -> None:
    publish(parts, 1, 117)
    OBSERVE(payload("dynamodb_stream_two_organizations"), None)
    with a_client(ministack) as client:
        assert DELIVER(brought(client, queue_url), Context()) == ALL_WELL
    assert inbox(parts) == ["1.1.1"]


def test_clean_cleans_what_is_silent_in_all_organizations(parts: Annals) -> None:
    for server in (1, 2):
        publish(parts, server, 117, clean_timeout="0")
        publish(parts, server, 118)
    deadline = time.monotonic() + 60
    while parts.log.head(1).session < 3 or parts.log.head(2).session < 3:
        assert time.monotonic() < deadline
        CLEAN(payload("scheduled_event"), None)
    CLEAN({}, None)
    for server in (1, 2):
        (event,) = parts.log.commit(server, 3).events  # type: ignore[union-attr]
        own = job.own_json(event) or {}
        assert (own["event"], own["id"]) == ("clean", 117)
        assert parts.log.head(server).session == 3


def test_one_server_that_fails_holds_up_no_other_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def work(server: int) -> None:
        if server == 2:
            raise Unavailable("no answer")
        done.append(server)

    assert [str(failure) for failure in each([1, 2, 3], work).values()] == ["no answer"]
    with pytest.raises(ExceptionGroup, match=r"the work failed for servers \[2\]"):
        all_of([1, 2, 3], work)
    assert done == [1, 3, 1, 3]
    assert "the work for server 2 failed" in caplog.text


def job_key(parts: Annals, session: int) -> str:
    """The key of the event of a session."""
    commit = parts.log.commit(1, session)
    assert commit is not None
    return commit.events[0].stored.key or ""


def _forget() -> None:
    wiring.annals.cache_clear()
    app._delivering.cache_clear()
