"""Messages of a channel, in each format of its operation."""

from collections.abc import Iterator

from chalicelib.domain.json_schema import JsonSchema
from chalicelib.http.asyncapi.examples import examples_of
from chalicelib.http.openapi.outputs import EVENT_STREAM, JSON, NDJSON

POLL, LINE, POSITION = "poll", "line", "position"
"""Names for messages without one: a JSON document, a line of NDJSON, a server-sent event without data."""


def channel_messages(operation: JsonSchema) -> Iterator[tuple[str, JsonSchema]]:
    """All messages of the operation, by name."""
    for name, message in _messages(operation["responses"]["200"]["content"]):
        examples = [example.as_document() for example in examples_of(operation["operationId"], name)]
        yield name, {"name": name, **message, **({"examples": examples} if examples else {})}


def _messages(content: JsonSchema) -> Iterator[tuple[str, JsonSchema]]:
    if JSON in content:
        payload = _event_seq(content[JSON]["schema"])
        yield POLL, {"contentType": JSON, "summary": "The whole response.", "payload": payload}
    if NDJSON in content:
        payload = {name: value for name, value in content[NDJSON]["schema"].items() if name != "description"}
        yield LINE, {"contentType": NDJSON, "summary": "A line. An empty line is a heartbeat.", "payload": payload}
    for event in content[EVENT_STREAM]["schema"]["oneOf"]:
        yield _sse_message(event["properties"])


def _event_seq(schema: JsonSchema) -> JsonSchema:
    """The feed's part of a JSON response: some routes return snapshots as well."""
    choices: list[JsonSchema] = schema.get("anyOf", [schema])
    return choices[0]


def _sse_message(properties: JsonSchema) -> tuple[str, JsonSchema]:
    headers = {name: schema for name, schema in properties.items() if name != "data"}
    message: JsonSchema = {"contentType": EVENT_STREAM, "headers": {"type": "object", "properties": headers}}
    if "data" not in properties:
        return POSITION, {**message, "summary": "A server-sent event with only the position from which to resume."}
    payload = properties["data"]["contentSchema"]
    return properties["event"]["const"], {**message, "summary": "A server-sent event.", "payload": payload}
