"""Sends the example requests of the documents to a running server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx

from chalicelib.http.openapi.example import Example
from tests.http.openapi.response_checks import Document, find_operation
from tests.serving import Member


@contextmanager
def send_example(member: Member, document: Document, example: Example) -> Iterator[tuple[httpx.Response, str]]:
    """The response and its body. Of an endless stream, the body ends after the second event."""
    _, method, path = find_operation(document, example.operation)
    for name, value in example.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe="/,*"))
    options: dict[str, Any] = {"params": example.query, "headers": {**member.headers, **example.headers}}
    if isinstance(example.body, str):
        options["content"] = example.body
    elif example.body is not None:
        options["json"] = example.body
    with member.server.client.stream(method.upper(), path, **options) as response:
        yield response, _first_two_events(response) if example.is_endless else response.read().decode()


def _first_two_events(response: httpx.Response) -> str:
    lines: list[str] = []
    for line in response.iter_lines():
        lines.append(line)
        if lines.count("") == 2:
            break
    return "\n".join([*lines, ""])
