"""The AsyncAPI document is valid, and the server sends every message that it describes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft7Validator
from pydantic_core import from_json

from chalicelib.http.asyncapi.examples import EXAMPLES, MessageExample
from chalicelib.http.openapi import examples as openapi_examples
from chalicelib.http.openapi.outputs import EVENT_STREAM, NDJSON
from tests.http.openapi.example_requests import send_example
from tests.http.openapi.response_checks import Document, parse_sse
from tests.serving import Member, run_server

SHOWN_ONCE = ("Torn", "position")
"""Messages that look the same on all feeds. Only the core feed has examples of them."""
VARIABLE_PARTS = [
    (re.compile(r"\d{16}"), "<number>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{6}Z"), "<time>"),
    (re.compile(r'"session": \d+'), '"session": "<number>"'),
]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, openapi_document: Document) -> Iterator[Member]:
    """A member who sent all examples that publish. The feeds of push jobs show events for one hour."""
    with run_server(tmp_path_factory.mktemp("feeds"), WAIT_COMPLETE_TIME="1h") as running:
        yield publish_examples(running.member("local"), openapi_document)


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory, openapi_document: Document) -> Iterator[Member]:
    """The same, but the feeds of push jobs show only summaries of finished jobs."""
    with run_server(tmp_path_factory.mktemp("later"), WAIT_COMPLETE_TIME="0") as running:
        yield publish_examples(running.member("local"), openapi_document)


def test_asyncapi_document_is_valid(asyncapi_document: Document, asyncapi_schema: dict[str, Any]) -> None:
    assert [error.message for error in Draft7Validator(asyncapi_schema).iter_errors(asyncapi_document)] == []


def test_asyncapi_document_has_a_channel_for_every_feed(
    asyncapi_document: Document, openapi_document: Document
) -> None:
    feeds = {
        operation["operationId"]: path
        for path, methods in openapi_document["paths"].items()
        for operation in methods.values()
        if EVENT_STREAM in operation["responses"].get("200", {}).get("content", {})
    }
    assert {name: channel["address"] for name, channel in asyncapi_document["channels"].items()} == feeds
    assert set(asyncapi_document["operations"]) == set(feeds)


def test_asyncapi_document_has_no_dangling_references(asyncapi_document: Document) -> None:
    for target in references(asyncapi_document):
        place: Any = asyncapi_document
        for name in target.removeprefix("#/").split("/"):
            place = place[name]


def test_every_message_has_an_example(asyncapi_document: Document) -> None:
    without = {
        (channel_name, name)
        for channel_name, channel in asyncapi_document["channels"].items()
        for name, message in channel["messages"].items()
        if "examples" not in message and name not in SHOWN_ONCE
    }
    assert without == {("jobscheduler_post", "line"), ("jobscheduler_post", "message")}, "the same as with GET"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.request.operation} {example.name}")
def test_message_example_is_received_and_matches_schema(
    local: Member,
    later: Member,
    asyncapi_document: Document,
    openapi_document: Document,
    example: MessageExample,
) -> None:
    message = asyncapi_document["channels"][example.request.operation]["messages"][example.name]
    expected = example.as_document()
    assert normalize(expected) in [normalize(shown) for shown in message["examples"]]
    member = later if example.name == "summary" else local
    with send_example(member, openapi_document, example.request) as (response, body):
        received = [normalize(shown) for shown in parse_messages(response, body)]
    assert normalize(expected) in received
    schemas = {"components": asyncapi_document["components"]}
    for part in ("payload", "headers"):
        if part in expected:
            assert list(Draft7Validator({**message[part], **schemas}).iter_errors(expected[part])) == []


def publish_examples(member: Member, document: Document) -> Member:
    """Send the examples that write. The observer is created first, so that it is notified of all events."""
    writing = [example for example in openapi_examples.EXAMPLES if example.status == 201]
    for example in sorted(writing, key=lambda example: example.operation != "put_observer"):
        with send_example(member, document, example) as (response, body):
            assert response.status_code == 201, body
    return member


def parse_messages(response: httpx.Response, body: str) -> Iterator[dict[str, Any]]:
    """The messages of a response, as the document shows them."""
    content_type = response.headers["Content-Type"]
    if content_type == EVENT_STREAM:
        for event in parse_sse(body):
            payload = {"payload": from_json(event.pop("data"))} if "data" in event else {}
            yield {**payload, "headers": event}
    elif content_type == NDJSON:
        yield from ({"payload": from_json(line)} for line in body.splitlines() if line)
    else:
        yield {"payload": from_json(body)}


def normalize(value: object) -> str:
    """The message as text, without the parts that differ from one log to another."""
    text = json.dumps(value, sort_keys=True)
    for pattern, placeholder in VARIABLE_PARTS:
        text = pattern.sub(placeholder, text)
    return text


def references(value: object) -> Iterator[str]:
    match value:
        case {"$ref": str(target)}:
            yield target
        case dict():
            for member in value.values():
                yield from references(member)
        case list():
            for element in value:
                yield from references(element)
