"""Responses of Lambda functions fit into 6 MB as the runtime encodes them, whatever the alphabet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import app
from chalicelib import wiring
from chalicelib.domain.events.event import NewEvent, encode
from chalicelib.domain.log.append import MAX_BYTES, Append, encode_within_limits
from chalicelib.domain.queries.size_limit import MAX_LAMBDA_RESPONSE_BYTES
from chalicelib.domain.vocabularies import JOB_VOCABULARY, SCHEDULER_VOCABULARY
from chalicelib.http.routes import objects
from tests.conformance.anyjob.anyjob import create, progress
from tests.telemetry.conftest import reset_process
from tests.telemetry.lambda_runner import FUNCTION, Context, request

ALPHABETS = {"ascii": "x", "German": "ü", "Cyrillic": "ж", "Chinese": "漢", "emoji": "🙂", "quotes": '"'}
SERVER = 1
COMMITS = 24


@pytest.fixture
def components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[wiring.Components]:
    """Components of a Lambda function with the organization acme (1), on SQLite."""
    for name, value in {"STORE": "sqlite", "DATA_DIR": str(tmp_path), "AWS_LAMBDA_FUNCTION_NAME": FUNCTION}.items():
        monkeypatch.setenv(name, value)
    reset_process()
    components = wiring.get_components()
    components.log.organizations.create("acme")
    yield components
    components.close()
    reset_process()


def publish_large_commits(components: wiring.Components, character: str, events: int = 1) -> None:
    """Append 8 MB of UTF-8 in commits of the maximum size, each event with a type of its own."""
    size = (MAX_BYTES // events - 200) // len(json.dumps(character, ensure_ascii=False).encode()[1:-1])
    payload = {"type": "json", "data": character * size}
    for n in range(COMMITS):
        texts = tuple(
            encode(NewEvent.model_validate({"type": ["large", f"{n}-{i}"], "key": "/a", "payload": payload})).decode()
            for i in range(events)
        )
        components.log.appender.append(Append(SERVER, texts, f"r{n}"))


def call(
    path: str,
    accept: str = "application/json",
    resource: str = "",
    **query: str,
) -> dict[str, Any]:
    """Call the function and check the size of its response in both forms of the runtime's encoder."""
    event = request("GET", path, headers={"accept": accept}, query=query)
    if resource:
        collection = path.rpartition("/")[2]
        names = {"collection": path.split("/")[resource.count("/", 0, resource.find("{"))], "number": collection}
        event |= {"resource": resource, "pathParameters": names}
        event["requestContext"]["resourcePath"] = resource
    response: dict[str, Any] = app.app(event, Context())
    assert len(json.dumps(response).encode()) <= MAX_LAMBDA_RESPONSE_BYTES
    assert len(json.dumps(response, ensure_ascii=False).encode()) <= MAX_LAMBDA_RESPONSE_BYTES
    return response


def read_feed() -> list[int]:
    """The sessions of all events, read page by page."""
    sessions: list[int] = []
    after = 0
    while True:
        page = json.loads(call("/events", after=str(after))["body"])
        if page["TYPE"] == "Empty":
            return sessions
        sessions += [event["id"]["session"] for event in page["eventSnapshots"]]
        after = page["eventId"]


@pytest.mark.parametrize("events", [1, 1_000])
@pytest.mark.parametrize("character", ALPHABETS.values(), ids=ALPHABETS)
def test_feed_pages_fit_and_have_no_gap(components: wiring.Components, character: str, events: int) -> None:
    publish_large_commits(components, character, events)
    assert read_feed() == [session for session in range(1, COMMITS + 1) for _ in range(events)]


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/event-stream"])
def test_streamed_page_fits(components: wiring.Components, accept: str) -> None:
    publish_large_commits(components, "ж")
    assert call("/events", accept)["statusCode"] == 200


def test_newest_first_page_fits(components: wiring.Components) -> None:
    publish_large_commits(components, "ж")
    newest = json.loads(call("/events", limit="-1000")["body"])["eventSnapshots"]
    assert [event["id"]["session"] for event in newest] == list(range(COMMITS, COMMITS - len(newest), -1))


@pytest.mark.parametrize("query", ["server", "timeseries"])
@pytest.mark.parametrize("character", ALPHABETS.values(), ids=ALPHABETS)
def test_query_pages_fit_and_have_no_gap(components: wiring.Components, character: str, query: str) -> None:
    publish_large_commits(components, character)
    sessions: list[int] = []
    position: dict[str, str] = {} if query == "server" else {"order": "ascending"}
    while True:
        page = json.loads(call(f"/events/{query}", "application/json", **position)["body"])
        sessions += [event["id"]["session"] for event in page["events"]]
        if not page["moreFollows"]:
            break
        position["lastEventId"] = f"{SERVER}.{sessions[-1]}.1"
    assert sessions == list(range(1, COMMITS + 1))


def publish_orders(components: wiring.Components, count: int) -> list[str]:
    """Append orders of 1,900 bytes as JSON, a third of them Cyrillic, and return their paths in order."""
    facts = [{"TYPE": "OrderAdded", "key": f"/{'ж' * 300}/chain,{n:05}", "nodeId": "A"} for n in range(count)]
    for n in range(0, count, 250):
        texts = encode_within_limits([SCHEDULER_VOCABULARY.new_event(fact) for fact in facts[n : n + 250]])
        components.log.appender.append(Append(SERVER, texts, f"orders{n}"))
    return [str(fact["key"]) for fact in facts]


@pytest.mark.parametrize(("route", "name"), [("/objects", "elements"), ("/jobscheduler/master/api", "orders")])
def test_large_snapshot_is_refused_but_has_pages(components: wiring.Components, route: str, name: str) -> None:
    paths = publish_orders(components, 3_000)
    refused = call(f"{route}/order", resource=f"{route}/{{collection}}")
    assert refused["statusCode"] == 400
    assert "request less: a list or a snapshot in pages with limit=1000" in json.loads(refused["body"])["detail"]
    read: list[str] = []
    page: dict[str, Any] = {"cursor": None}
    while page["cursor"] is not None or not read:
        query = {"limit": "5000"} | ({} if page["cursor"] is None else {"cursor": page["cursor"]})
        page = json.loads(call(f"{route}/order", resource=f"{route}/{{collection}}", **query)["body"])
        read += [order["path"] for order in page[name]]
    assert read == paths


def test_large_list_is_cut(components: wiring.Components) -> None:
    publish_orders(components, 3_000)
    response = call("/objects/order", resource="/objects/{collection}", brief="yes", limit="5000")
    page = json.loads(response["body"])
    assert (page["moreFollows"], page["counts"]) == (True, {"NotPlanned": 3_000})
    assert len(page["elements"]) > 500


def test_large_object_is_refused_or_in_pages(components: wiring.Components) -> None:
    lines = [progress(1, log={"message": "ж" * 100_000, "level": 1}) for _ in range(20)]
    for n, native in enumerate((create(1), *lines)):
        texts = encode_within_limits([JOB_VOCABULARY.new_event(native)])
        components.log.appender.append(Append(SERVER, texts, f"line{n}"))
    response = call("/objects/job/1", resource="/objects/{collection}/{path+}")
    assert response["statusCode"] == 400
    assert "or the events of an object instead of its details" in json.loads(response["body"])["detail"]
    logs = 0
    page: dict[str, Any] = {"next": 0}
    while "next" in page:
        page = json.loads(call("/jobs/1", resource="/jobs/{number}", after=str(page["next"]))["body"])
        logs += len(page["logs"])
    assert logs == 20


def test_snapshot_with_too_many_objects_is_refused(
    components: wiring.Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot without pages has limits of its own, also on the embedded server."""
    events = [JOB_VOCABULARY.new_event(create(number)) for number in range(4)]
    components.log.appender.append(Append(SERVER, encode_within_limits(events), "r"))
    resource = "/objects/{collection}"
    assert call("/objects/job", resource=resource)["statusCode"] == 200
    for name in ("MAX_UNPAGED_OBJECTS", "MAX_UNPAGED_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(objects, name, 3)
            response = call("/objects/job", resource=resource)
        assert (response["statusCode"], "request pages with limit=1000" in response["body"]) == (400, True)
