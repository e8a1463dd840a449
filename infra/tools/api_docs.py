"""Writes docs/api.md, the API reference, from the OpenAPI document: `python -m infra.tools.api_docs`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import app
from chalicelib import __version__
from chalicelib.http.openapi import document
from chalicelib.http.openapi.example import Example
from chalicelib.http.openapi.examples import EXAMPLES, of
from chalicelib.http.openapi.outputs import UNNAMED
from infra.tools.api_feeds import feeds
from infra.tools.api_schemas import Schema, fields, linked, words

PAGE = Path(__file__).parents[2] / "docs" / "api.md"

_OPENING = """# The API

Made from the code with `make api-docs`; a server answers the same, as OpenAPI 3.1, to `GET /openapi.json`, and what
comes over its feeds, as AsyncAPI 3.0, to `GET /asyncapi.json`. What it is good for is told in the [guide](guide.md), in
[live feeds](feeds.md) and in [jobs and observers](observers.md).

```sh
export ANNALS=http://127.0.0.1:8000
export TOKEN=$(make -s token USER=anna ORG=local GROUPS=publishers,readers,admins)
```
"""


def page(described: Schema) -> str:
    """The reference as Markdown."""
    return (
        "\n".join([_OPENING, *_subjects(described), *feeds(described), *_problems(described), *_types(described)])
        + "\n"
    )


def main() -> None:
    """Write the reference."""
    PAGE.write_text(page(document(app.app.routes, __version__)))


def _subjects(described: Schema) -> Iterator[str]:
    """The operations by subject, in the order in which their examples work."""
    places = {example.operation: place for place, example in reversed(list(enumerate(EXAMPLES)))}
    found = [
        (places.get(operation["operationId"], len(EXAMPLES)), path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    meanings = {tag["name"]: tag["description"] for tag in described["tags"]}
    subject = ""
    for _, path, method, operation in sorted(found, key=lambda one: one[0]):
        if operation["tags"][0] != subject:
            subject = operation["tags"][0]
            yield f"## {subject[0].upper()}{subject[1:]}\n\n{meanings[subject]}\n"
        yield from _operation(method.upper(), path, operation)


def _operation(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield f"### `{method} {path}`\n\n{operation['summary']}.\n"
    if operation.get("description"):
        yield f"{operation['description']}\n"
    if "parameters" in operation:
        yield from ("| parameter | in | type | meaning |", "|---|---|---|---|")
        yield from (_parameter(one) for one in operation["parameters"])
        yield ""
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        yield f"Body{'' if operation['requestBody']['required'] else ', if any'}: {_body(schema)}.\n"
    yield from ("| answer | |", "|---|---|")
    yield from (_answer(status, answer) for status, answer in operation["responses"].items() if "content" in answer)
    refused = [status for status, answer in operation["responses"].items() if "$ref" in answer]
    yield f"| [problems](#problems) | {', '.join(refused)} |\n"
    for example in of(operation["operationId"])[:1]:
        shell = "sh" if example.status < 400 else "bash"  # what has to be filled in is not run by tests
        yield f"```{shell}\n{_curl(method, path, operation, example)}\n```\n"


def _parameter(parameter: Schema) -> str:
    name = f"`{parameter['name']}`" + (" (required)" if parameter["required"] else "")
    cells = (name, parameter["in"], words(parameter["schema"]), parameter["description"])
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _body(schema: Schema) -> str:
    if "anyOf" not in schema:
        return words(schema)
    return f'{words(schema["anyOf"][0])}, or `{{"events": […], "condition": …}}` with several'


def _answer(status: str, answer: Schema) -> str:
    told = [f"`{media_type}`: {_content(content)}" for media_type, content in answer["content"].items()]
    return f"| {status} | {'<br>'.join(told)} |"


def _content(content: Schema) -> str:
    schema = content["schema"]
    sent = [one["properties"] for one in schema.get("oneOf", ()) if "properties" in one]
    if sent:
        return f"events {', '.join(_sent(one) for one in sent if 'data' in one)}"
    return f"lines, each {words(schema)}" if schema.get("description") == "Each line." else words(schema)


def _sent(properties: Schema) -> str:
    data = words(properties["data"]["contentSchema"])
    name = properties["event"]["const"]
    return data if name == UNNAMED else f"`{name}`: {data}"


def _curl(method: str, path: str, operation: Schema, example: Example) -> str:
    """The example as a command."""
    for name, value in example.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe="/,*"))
    query = f"?{urlencode(example.query, doseq=True, safe='/*:')}" if example.query else ""
    is_stream = example.headers.get("Accept") == "text/event-stream"
    parts = ["curl -sN" if is_stream else "curl -s", *(["--max-time 1"] if example.is_endless else [])]
    if method not in ("GET", "POST") or (method == "POST" and example.body is None):
        parts.append(f"-X {method}")
    parts.append(f'"$ANNALS{path}{query}"')
    if operation["security"]:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    parts += [f"-H '{name}: {value}'" for name, value in example.headers.items()]
    if example.body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(example.body)}'"]
    return " ".join([*parts, *(["|| true"] if example.is_endless else [])])


def _problems(described: Schema) -> Iterator[str]:
    yield f"## Problems\n\nAll are `application/problem+json`: {linked('Problem')}.\n"
    yield from ("| status | meaning |", "|---|---|")
    yield from (f"| {status} | {one['description']} |" for status, one in described["components"]["responses"].items())
    yield ""


def _types(described: Schema) -> Iterator[str]:
    yield "## Types\n"
    schemas: dict[str, Any] = described["components"]["schemas"]
    for name, schema in schemas.items():
        yield f"### Type {name}\n"
        if schema.get("description"):
            yield f"{' '.join(schema['description'].split())}\n"
        table = fields(schema)
        yield "\n".join(table) + "\n" if table else f"{words(schema)}\n"


if __name__ == "__main__":
    main()
