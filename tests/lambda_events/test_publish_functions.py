"""The publish and ingest functions, called with recorded AWS events."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import app
from chalicelib import wiring
from chalicelib.domain.errors import BadInput, ConditionFailed, KeyReused, NoSuchOrganization
from chalicelib.domain.events.event import Event
from tests.adapters.channels.queues import create_queue, open_client

EVENTS = Path(__file__).parent.parent / "events"
PUBLISH: Callable[[dict[str, Any], object], dict[str, Any]] = app.publish
INGEST: Callable[[dict[str, Any], object], dict[str, Any]] = app.ingest
NO_FAILURES: dict[str, list[dict[str, str]]] = {"batchItemFailures": []}
CONTEXT = None


@pytest.fixture(autouse=True)
def components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[wiring.Components]:
    """Components of a new process, with the organizations acme (1) and other (2)."""
    monkeypatch.setenv("STORE", "sqlite")
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    wiring.get_components.cache_clear()
    components = wiring.get_components()
    for name in ("acme", "other"):
        components.log.organizations.create(name)
    yield components
    components.close()
    wiring.get_components.cache_clear()


@pytest.fixture
def dead_letters(
    ministack: str,
    aws_environment: None,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[], list[tuple[str, str]]]]:
    """The message group and the reason of each message in the dead-letter queue."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    with open_client(ministack) as client:
        url = create_queue(client)
        monkeypatch.setenv("INGEST_QUEUE_URL", create_queue(client))
        monkeypatch.setenv("INGEST_DEAD_LETTER_QUEUE_URL", url)
        wiring.get_components.cache_clear()

        def receive() -> list[tuple[str, str]]:
            wanted = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
            messages = client.call("ReceiveMessage", {"QueueUrl": url, **wanted}).get("Messages", [])
            return [
                (message["Attributes"]["MessageGroupId"], message["MessageAttributes"]["reason"]["StringValue"])
                for message in messages
            ]

        yield receive
        wiring.get_components().close()


def payload(name: str) -> dict[str, Any]:
    """A recorded Lambda event."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


def stored_events(components: wiring.Components, server: int) -> list[str]:
    """Session, second subtype and key of each event in a log."""
    return [
        f"{event.id.session} {_subtype_and_key(event)}"
        for commit in components.stores.log.read(server, 0)
        for event in commit.events
    ]


def test_ingest_batch_writes_one_commit_per_organization(components: wiring.Components) -> None:
    assert INGEST(payload("sqs_fifo_two_organizations"), CONTEXT) == NO_FAILURES
    assert stored_events(components, 1) == ["1 create /job/117", "1 finish /job/117", "1 create /job/118"]
    assert stored_events(components, 2) == ["1 create /job/1", "1 finish /job/1"]


def test_ingest_keeps_tags(components: wiring.Components) -> None:
    batch = payload("sqs_fifo_two_organizations")
    batch["Records"][0]["body"] = json.dumps({"events": [{"type": ["job", "create"], "tags": ["b", "a", "b"]}]})
    assert INGEST(batch, CONTEXT) == NO_FAILURES
    first = next(iter(components.stores.log.read(1, 0))).events[0]
    assert first.fields.tags == ("b", "a")


def test_ingest_redelivered_batch_writes_nothing(components: wiring.Components) -> None:
    assert INGEST(payload("sqs_fifo_two_organizations"), CONTEXT) == NO_FAILURES
    assert INGEST(payload("sqs_fifo_redelivered"), CONTEXT) == NO_FAILURES
    assert stored_events(components, 1) == ["1 create /job/117", "1 finish /job/117", "1 create /job/118"]
    assert stored_events(components, 2) == ["1 create /job/1", "1 finish /job/1"]


def test_ingest_redelivered_with_more_writes_new_events(components: wiring.Components) -> None:
    INGEST(payload("sqs_fifo_two_organizations"), CONTEXT)
    assert INGEST(payload("sqs_fifo_redelivered_with_more"), CONTEXT) == NO_FAILURES
    assert stored_events(components, 1) == [
        "1 create /job/117",
        "1 finish /job/117",
        "1 create /job/118",
        "2 finish /job/118",
    ]
    assert stored_events(components, 2) == ["1 create /job/1", "1 finish /job/1"]


def test_ingest_redelivered_but_unwritten_batch_writes_it(components: wiring.Components) -> None:
    assert INGEST(payload("sqs_fifo_redelivered"), CONTEXT) == NO_FAILURES
    assert (len(stored_events(components, 1)), len(stored_events(components, 2))) == (3, 2)


def test_ingest_puts_bad_message_aside_with_its_reason(
    components: wiring.Components, dead_letters: Callable[[], list[tuple[str, str]]], caplog: pytest.LogCaptureFixture
) -> None:
    assert INGEST(payload("sqs_fifo_bad_message"), CONTEXT) == NO_FAILURES
    assert stored_events(components, 1) == ["1 create /job/117", "1 finish /job/117", "1 finish /job/118"]
    assert stored_events(components, 2) == ["1 create /job/1", "1 finish /job/1"]
    ((group, reason),) = dead_letters()
    assert (group, reason.startswith("BadInput: events.0.type.0: ")) == ("acme", True)
    (logged,) = caplog.messages
    assert logged.startswith("message 00000000-0000-4000-8000-000000000003 put into the dead-letter queue: BadInput: ")


def test_ingest_puts_invalid_json_aside(
    components: wiring.Components, dead_letters: Callable[[], list[tuple[str, str]]]
) -> None:
    assert INGEST(payload("sqs_fifo_no_json"), CONTEXT) == NO_FAILURES
    assert stored_events(components, 2) == ["1 create /job/1"]
    assert [group for group, _ in dead_letters()] == ["acme"]


def test_ingest_puts_messages_of_unknown_organization_aside(
    components: wiring.Components, dead_letters: Callable[[], list[tuple[str, str]]]
) -> None:
    assert INGEST(payload("sqs_fifo_unknown_organization"), CONTEXT) == NO_FAILURES
    assert stored_events(components, 1) == ["1 create /job/117", "1 finish /job/117", "1 create /job/118"]
    reason = f"NoSuchOrganization: {NoSuchOrganization('nobody')}"
    assert dead_letters() == [("nobody", reason), ("nobody", reason)]


def test_publish_returns_same_response_as_api(components: wiring.Components) -> None:
    response = PUBLISH(payload("publish"), CONTEXT)
    (event,) = response["events"]
    assert {**response, "events": [{**event, "timestamp": "now"}]} == {
        "events": [
            {
                "id": {"server": 1, "session": 1, "instance": 1},
                "eventId": response["eventId"],
                "position": 1,
                "timestamp": "now",
                "type": ["job", "create", "n1", "backup"],
                "key": "/job/117",
                "sourceTimestamp": "2019-11-08T22:18:30.774000Z",
                "payload": {"type": "json", "data": {"id": 117}},
                "tags": ["team:ops"],
            }
        ],
        "position": 1,
        "eventId": event["eventId"],
    }
    assert stored_events(components, 1) == ["1 create /job/117"]


def test_publish_repeated_returns_first_response(components: wiring.Components) -> None:
    assert PUBLISH(payload("publish"), CONTEXT) == PUBLISH(payload("publish"), CONTEXT)
    assert stored_events(components, 1) == ["1 create /job/117"]


def test_publish_without_events_returns_head(components: wiring.Components) -> None:
    assert PUBLISH({"org": "acme", "events": []}, CONTEXT) == {"events": [], "eventId": 0}
    assert components.stores.log.head(1).session == 0


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ({"idempotencyKey": None}, ConditionFailed, "matches the append condition"),
        ({"condition": None}, KeyReused, "Idempotency-Key '117-create' was used for another request"),
        ({"events": []}, BadInput, "a condition needs events to append"),
        ({"condition": {"failIfEventsMatch": {"keys": []}}}, BadInput, "the list is empty"),
        (
            {"idempotencyKey": None, "condition": {"failIfEventsMatch": {"items": [{"tags": ["team:ops"]}]}}},
            ConditionFailed,
            "matches the append condition",
        ),
        ({"org": "nobody"}, NoSuchOrganization, "organization 'nobody' does not exist"),
        ({"org": None}, BadInput, "org: "),
        ({"idempotencyKey": ""}, BadInput, "idempotencyKey: |an Idempotency-Key has"),
        ({"colour": "red"}, BadInput, "colour: unknown field"),
        ({"events": [{"type": ["a?"]}]}, BadInput, r"events\.0\.type\.0: "),
        ({"events": [{"type": [], "payload": {"type": "json", "data": float("nan")}}]}, BadInput, "number"),
        ({"events": [{"type": [], "payload": {"type": "json", "data": float("inf")}}]}, BadInput, "number"),
        ({"events": [{"type": [], "payload": {"type": "json", "data": "\ud800"}}]}, BadInput, "surrogates"),
        ({"events": [{"type": ["\ud800"]}]}, BadInput, r"events\.0\.type\.0: |surrogates"),
    ],
)
def test_publish_refused_raises_and_writes_nothing(
    change: dict[str, Any], error: type[Exception], reason: str, components: wiring.Components
) -> None:
    PUBLISH(payload("publish"), CONTEXT)
    with pytest.raises(error, match=reason):
        PUBLISH({**payload("publish"), **change}, CONTEXT)
    assert stored_events(components, 1) == ["1 create /job/117"]


def _subtype_and_key(event: Event) -> str:
    return f"{event.fields.type[1]} {event.fields.key}"
