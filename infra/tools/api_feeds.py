"""The feeds for people, message by message, from what `GET /asyncapi.json` answers."""

import json
from collections.abc import Iterator

from chalicelib.http.asyncapi import document
from infra.tools.api_schemas import Schema, words

_OPENING = """## Feeds, message by message

A feed answers in the format that `Accept` asks for. `poll` is one JSON document; of `application/x-ndjson` each line is
a `line`, or empty, which only says that the feed is alive; all others are server-sent events, called by their names:
`message` is one that has none, `position` has an `id` and no data, and says from where to go on.
"""


def feeds(api: Schema) -> Iterator[str]:
    """The section of the reference."""
    described = document(api)
    yield _OPENING
    for name, channel in described["channels"].items():
        method = described["operations"][name]["bindings"]["http"]["method"]
        yield f"### Messages of `{method} {channel['address']}`\n"
        yield from ("| message | format | what it holds |", "|---|---|---|")
        yield from (_row(message) for message in channel["messages"].values())
        yield from ("", *_example(channel["messages"]))


def _row(message: Schema) -> str:
    held = words(message["payload"]) if "payload" in message else "nothing"
    return f"| `{message['name']}` | `{message['contentType']}` | {held} |"


def _example(messages: Schema) -> Iterator[str]:
    """The first example that holds something."""
    shown = (one for message in messages.values() for one in message.get("examples", ()) if "payload" in one)
    yield f"```json\n{json.dumps(next(shown)['payload'])}\n```\n"
