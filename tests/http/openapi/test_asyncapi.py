"""The feeds' description is AsyncAPI, and says what comes: all of its messages do."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from jsonschema import Draft7Validator
from pydantic_core import from_json

from chalicelib.http.asyncapi.examples import HEARD, Heard
from chalicelib.http.openapi.examples import EXAMPLES
from chalicelib.http.openapi.outputs import EVENT_STREAM, NDJSON
from tests.http.openapi.openapi_answers import Document, found, server_sent
from tests.serving import Member, serving

SHOWN_ONCE = ("Torn", "position")
"""Messages that look the same on all feeds; those of the core feed are shown."""
COUNTED = [
    (re.compile(r"\d{16}"), "<number>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{6}Z"), "<time>"),
    (re.compile(r'"session": \d+'), '"session": "<number>"'),
]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """Somebody who has sent all examples that publish; push jobs show their events for long."""
    with serving(tmp_path_factory.mktemp("feeds"), WAIT_COMPLETE_TIME="1h") as running:
        yield published(running.member("local"))


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """The same when push jobs have been over for long."""
    with serving(tmp_path_factory.mktemp("later"), WAIT_COMPLETE_TIME="0") as running:
        yield published(running.member("local"))


@pytest.fixture(scope="module")
def described(local: Member) -> Document:
    answer = local.server.client.get("/asyncapi.json")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    document: Document = answer.json()
    return document


@pytest.fixture(scope="module")
def api(local: Member) -> Document:
    document: Document = local.server.client.get("/openapi.json").json()
    return document


def test_the_document_is_valid_asyncapi(described: Document, asyncapi: dict[str, Any]) -> None:
    assert [error.message for error in Draft7Validator(asyncapi).iter_errors(described)] == []


def test_every_feed_of_the_api_has_its_channel(described: Document, api: Document) -> None:
    feeds = {
        operation["operationId"]: path
        for path, methods in api["paths"].items()
        for operation in methods.values()
        if EVENT_STREAM in operation["responses"].get("200", {}).get("content", {})
    }
    assert {name: channel["address"] for name, channel in described["channels"].items()} == feeds
    assert set(described["operations"]) == set(feeds)


def test_all_references_lead_somewhere(described: Document) -> None:
    for target in references(described):
        place: Any = described
        for name in target.removeprefix("#/").split("/"):
            place = place[name]


def test_every_message_has_an_example(described: Document) -> None:
    bare = {
        (channel, name)
        for channel, one in described["channels"].items()
        for name, message in one["messages"].items()
        if "examples" not in message and name not in SHOWN_ONCE
    }
    assert bare == {("jobscheduler_post", "line"), ("jobscheduler_post", "message")}, "which are those of GET"


@pytest.mark.parametrize("heard", HEARD, ids=lambda heard: f"{heard.request.operation} {heard.name}")
def test_messages_come_as_shown_and_are_as_described(
    local: Member, later: Member, described: Document, api: Document, heard: Heard
) -> None:
    message = described["channels"][heard.request.operation]["messages"][heard.name]
    assert uncounted(heard.shown) in [uncounted(one) for one in message["examples"]]
    came = list(messages(later if heard.name == "summary" else local, api, heard))
    assert uncounted(heard.shown) in [uncounted(one) for one in came]
    schemas = {"components": described["components"]}
    for part in ("payload", "headers"):
        if part in heard.shown:
            assert list(Draft7Validator({**message[part], **schemas}).iter_errors(heard.shown[part])) == []


def published(member: Member) -> Member:
    """The member, whose observer was there before anything was published."""
    writing = [example for example in EXAMPLES if example.status == 201]
    api = member.server.client.get("/openapi.json").json()
    for example in sorted(writing, key=lambda one: one.operation != "put_observer"):
        _, method, path = found(api, example.operation)
        path = path.format(**example.path)
        answer = member.ask(method.upper(), path, json=example.body, headers=dict(example.headers))
        assert answer.status_code == 201, answer.text
    return member


def messages(member: Member, api: Document, heard: Heard) -> Iterator[dict[str, Any]]:
    """What comes in answer to the request, each message as the document would show it."""
    request = heard.request
    _, method, path = found(api, request.operation)
    for name, value in request.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe="/,"))
    options: dict[str, Any] = {"params": request.query, "headers": {**member.headers, **request.headers}}
    if request.body is not None:
        options["json"] = request.body
    with member.server.client.stream(method.upper(), path, **options) as answer:
        yield from shown(answer, beginning(answer) if request.is_endless else answer.read().decode())


def shown(answer: httpx.Response, body: str) -> Iterator[dict[str, Any]]:
    match answer.headers["Content-Type"]:
        case str(found) if found == EVENT_STREAM:
            for event in server_sent(body):
                payload = {"payload": from_json(event.pop("data"))} if "data" in event else {}
                yield {**payload, "headers": event}
        case str(found) if found == NDJSON:
            yield from ({"payload": from_json(line)} for line in body.splitlines() if line)
        case _:
            yield {"payload": from_json(body)}


def beginning(answer: httpx.Response) -> str:
    """A stream without end, up to its second event: of an organization's feed these are all that were published."""
    lines: list[str] = []
    for line in answer.iter_lines():
        lines.append(line)
        if lines.count("") == 2:
            break
    return "\n".join([*lines, ""])


def uncounted(value: object) -> str:
    """The message as text, without what differs from one log to another."""
    text = json.dumps(value, sort_keys=True)
    for counted, name in COUNTED:
        text = counted.sub(name, text)
    return text


def references(value: object) -> Iterator[str]:
    match value:
        case {"$ref": str(target)}:
            yield target
        case dict():
            for one in value.values():
                yield from references(one)
        case list():
            for one in value:
                yield from references(one)
