"""Messages: what comes over a channel, in each of the formats of its operation."""

from collections.abc import Iterator

from chalicelib.http.asyncapi import examples
from chalicelib.http.openapi.named_schemas import Schema
from chalicelib.http.openapi.outputs import EVENT_STREAM, JSON, NDJSON

POLL, LINE, POSITION = "poll", "line", "position"
"""Messages that have no name of their own: one JSON document, a line of many, a server-sent event without data."""


def of(operation: Schema) -> Iterator[tuple[str, Schema]]:
    """All messages of the operation, by name."""
    for name, message in _all(operation["responses"]["200"]["content"]):
        shown = [example.shown for example in examples.of(operation["operationId"], name)]
        yield name, {"name": name, **message, **({"examples": shown} if shown else {})}


def _all(content: Schema) -> Iterator[tuple[str, Schema]]:
    if JSON in content:
        yield POLL, {"contentType": JSON, "summary": "The whole answer.", "payload": _seq(content[JSON]["schema"])}
    if NDJSON in content:
        lines = {name: value for name, value in content[NDJSON]["schema"].items() if name != "description"}
        yield LINE, {"contentType": NDJSON, "summary": "A line; an empty one is a heartbeat.", "payload": lines}
    for one in content[EVENT_STREAM]["schema"]["oneOf"]:
        yield _server_sent(one["properties"])


def _seq(schema: Schema) -> Schema:
    """Of the JSON that is answered, what is a feed's: some routes answer snapshots, too."""
    choices: list[Schema] = schema.get("anyOf", [schema])
    return choices[0]


def _server_sent(properties: Schema) -> tuple[str, Schema]:
    fields = {name: of for name, of in properties.items() if name != "data"}
    message: Schema = {"contentType": EVENT_STREAM, "headers": {"type": "object", "properties": fields}}
    if "data" not in properties:
        return POSITION, {**message, "summary": "A server-sent event that only says from where to go on."}
    payload = properties["data"]["contentSchema"]
    return properties["event"]["const"], {**message, "summary": "A server-sent event.", "payload": payload}
