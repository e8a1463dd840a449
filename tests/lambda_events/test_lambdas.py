"""The plain Lambda functions, called as Lambda calls them, with what Lambda would give them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import app
from chalicelib import wiring
from chalicelib.domain.errors import BadInput, ConditionFailed, KeyReused, NoSuchOrganization
from chalicelib.domain.events.event import Event

EVENTS = Path(__file__).parent.parent / "events"
PUBLISH: Callable[[dict[str, Any], object], dict[str, Any]] = app.publish
INGEST: Callable[[dict[str, Any], object], dict[str, Any]] = app.ingest
ALL_WELL: dict[str, list[dict[str, str]]] = {"batchItemFailures": []}
CONTEXT = None


@pytest.fixture(autouse=True)
def annals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[wiring.Annals]:
    """A process of its own as far as the app can tell, with the organizations acme (1) and other (2)."""
    monkeypatch.setenv("STORE", "sqlite")
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    wiring.annals.cache_clear()
    parts = wiring.annals()
    for name in ("acme", "other"):
        parts.organizations.create(name)
    yield parts
    parts.close()
    wiring.annals.cache_clear()


def payload(name: str) -> dict[str, Any]:
    """A stored Lambda event."""
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return found


def failed(*numbers: int) -> dict[str, list[dict[str, str]]]:
    """The answer that these messages have to come again."""
    return {"batchItemFailures": [{"itemIdentifier": f"00000000-0000-4000-8000-{n:012d}"} for n in numbers]}


def stored(parts: wiring.Annals, server: int) -> list[str]:
    """What the log holds: session, second subtype and key of each event."""
    return [f"{event.id.session} {_named(event)}" for commit in parts.log.read(server, 0) for event in commit.events]


def test_a_batch_becomes_one_commit_per_organization(annals: wiring.Annals) -> None:
    assert INGEST(payload("sqs_fifo_two_organizations"), CONTEXT) == ALL_WELL
    assert stored(annals, 1) == ["1 create /job/117", "1 finish /job/117", "1 create /job/118"]
    assert stored(annals, 2) == ["1 create /job/1", "1 finish /job/1"]


def test_a_batch_that_was_written_is_not_written_again(annals: wiring.Annals) -> None:
    assert INGEST(payload("sqs_fifo_two_organizations"), CONTEXT) == ALL_WELL
    assert INGEST(payload("sqs_fifo_redelivered"), CONTEXT) == ALL_WELL
    assert stored(annals, 1) == ["1 create /job/117", "1 finish /job/117", "1 create /job/118"]
    assert stored(annals, 2) == ["1 create /job/1", "1 finish /job/1"]


def test_of_a_batch_that_comes_again_with_more_only_the_new_is_written(annals: wiring.Annals) -> None:
    INGEST(payload("sqs_fifo_two_organizations"), CONTEXT)
    assert INGEST(payload("sqs_fifo_redelivered_with_more"), CONTEXT) == ALL_WELL
    assert stored(annals, 1) == ["1 create /job/117", "1 finish /job/117", "1 create /job/118", "2 finish /job/118"]
    assert stored(annals, 2) == ["1 create /job/1", "1 finish /job/1"]


def test_a_batch_that_comes_again_but_was_never_written_is_written(annals: wiring.Annals) -> None:
    assert INGEST(payload("sqs_fifo_redelivered"), CONTEXT) == ALL_WELL
    assert (len(stored(annals, 1)), len(stored(annals, 2))) == (3, 2)


def test_a_bad_message_holds_up_only_those_behind_it_in_its_group(annals: wiring.Annals) -> None:
    assert INGEST(payload("sqs_fifo_bad_message"), CONTEXT) == failed(3, 5)
    assert stored(annals, 1) == ["1 create /job/117", "1 finish /job/117"]
    assert stored(annals, 2) == ["1 create /job/1", "1 finish /job/1"]


def test_why_a_message_failed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    INGEST(payload("sqs_fifo_bad_message"), CONTEXT)
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        f"message {item['itemIdentifier']} not ingested" for item in failed(3, 5)["batchItemFailures"]
    ]
    assert "events.0.type.0" in caplog.text


def test_a_message_that_is_no_json_fails_alone(annals: wiring.Annals) -> None:
    assert INGEST(payload("sqs_fifo_no_json"), CONTEXT) == failed(1)
    assert stored(annals, 2) == ["1 create /job/1"]


def test_an_unknown_organization_fails_only_its_own_messages(annals: wiring.Annals) -> None:
    assert INGEST(payload("sqs_fifo_unknown_organization"), CONTEXT) == failed(2, 4)
    assert stored(annals, 1) == ["1 create /job/117", "1 finish /job/117", "1 create /job/118"]


def test_what_failed_is_written_when_it_comes_again_and_its_organization_exists(annals: wiring.Annals) -> None:
    batch = payload("sqs_fifo_unknown_organization")
    INGEST(batch, CONTEXT)
    annals.organizations.create("nobody")
    for record in batch["Records"]:
        record["attributes"]["ApproximateReceiveCount"] = "2"
    assert INGEST(batch, CONTEXT) == ALL_WELL
    assert stored(annals, 3) == ["1 create /job/1", "1 finish /job/1"]
    assert stored(annals, 1) == ["1 create /job/117", "1 finish /job/117", "1 create /job/118"]


def test_publish_appends_and_answers_as_the_api_does(annals: wiring.Annals) -> None:
    answer = PUBLISH(payload("publish"), CONTEXT)
    (event,) = answer["events"]
    assert {**answer, "events": [{**event, "timestamp": "now"}]} == {
        "events": [
            {
                "id": {"server": 1, "session": 1, "instance": 1},
                "eventId": answer["eventId"],
                "timestamp": "now",
                "type": ["job", "create", "n1", "backup"],
                "key": "/job/117",
                "sourceTimestamp": "2019-11-08T22:18:30.774000Z",
                "payload": {"type": "json", "data": {"id": 117}},
            }
        ],
        "eventId": event["eventId"],
    }
    assert stored(annals, 1) == ["1 create /job/117"]


def test_publish_answers_a_repeat_with_the_first_answer(annals: wiring.Annals) -> None:
    assert PUBLISH(payload("publish"), CONTEXT) == PUBLISH(payload("publish"), CONTEXT)
    assert stored(annals, 1) == ["1 create /job/117"]


def test_publish_with_no_events_tells_the_head(annals: wiring.Annals) -> None:
    assert PUBLISH({"org": "acme", "events": []}, CONTEXT) == {"events": [], "eventId": 0}
    assert annals.log.head(1).session == 0


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ({"idempotencyKey": None}, ConditionFailed, "matches the append condition"),
        ({"condition": None}, KeyReused, "Idempotency-Key '117-create' was used for another request"),
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
def test_publish_raises_what_it_refuses_and_writes_nothing(
    change: dict[str, Any], error: type[Exception], reason: str, annals: wiring.Annals
) -> None:
    PUBLISH(payload("publish"), CONTEXT)
    with pytest.raises(error, match=reason):
        PUBLISH({**payload("publish"), **change}, CONTEXT)
    assert stored(annals, 1) == ["1 create /job/117"]


def _named(event: Event) -> str:
    return f"{event.stored.type[1]} {event.stored.key}"
