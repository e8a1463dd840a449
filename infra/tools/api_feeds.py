"""Describes the messages of each feed, from the AsyncAPI document."""

import json
from collections.abc import Iterator

from chalicelib.http.asyncapi.document import document
from infra.tools.api_schemas import Schema, describe_schema

_OPENING = """## Feeds, message by message

The `Accept` header selects the format. `poll` is one JSON document. In `application/x-ndjson` each line is a `line`;
empty lines are heartbeats. All other messages are server-sent events under their event names. `message` is an event
without a name. `position` has an `id` and no data: a reader resumes from that `id`.
"""


def feeds_section(api: Schema) -> Iterator[str]:
    """The section of the API reference."""
    asyncapi = document(api)
    yield _OPENING
    for name, channel in asyncapi["channels"].items():
        method = asyncapi["operations"][name]["bindings"]["http"]["method"]
        yield f"### Messages of `{method} {channel['address']}`\n"
        yield from ("| message | format | content |", "|---|---|---|")
        yield from (_row(message) for message in channel["messages"].values())
        yield from ("", *_example(channel["messages"]))


def _row(message: Schema) -> str:
    content = describe_schema(message["payload"]) if "payload" in message else "nothing"
    return f"| `{message['name']}` | `{message['contentType']}` | {content} |"


def _example(messages: Schema) -> Iterator[str]:
    """The first example with a payload."""
    examples = (
        example for message in messages.values() for example in message.get("examples", ()) if "payload" in example
    )
    yield f"```json\n{json.dumps(next(examples)['payload'])}\n```\n"
