"""Writes docs/api.md, the API reference, from the OpenAPI document: `python -m infra.tools.api_docs`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import app
from chalicelib import __version__
from chalicelib.http.openapi.document import document
from chalicelib.http.openapi.example import Example
from chalicelib.http.openapi.examples import EXAMPLES, examples_of
from chalicelib.http.openapi.outputs import UNNAMED
from infra.tools.api_feeds import feeds_section
from infra.tools.api_schemas import Schema, describe_schema, fields_table, type_link

PAGE = Path(__file__).parents[2] / "docs" / "api.md"

_OPENING = """# The API

Generated from the code with `make api-docs`. A server returns the same reference as OpenAPI 3.1 from
`GET /openapi.json`, and the messages of its feeds as AsyncAPI 3.0 from `GET /asyncapi.json`. For tutorials, see the
[guide](guide.md), [live feeds](feeds.md) and [jobs and notifications](observers.md).

```sh
export ANNALS=http://127.0.0.1:8000
export TOKEN=$(make -s token USER=anna ORG=local GROUPS=publishers,readers,admins)
```
"""


def page(openapi: Schema) -> str:
    return (
        "\n".join([_OPENING, *_subjects(openapi), *feeds_section(openapi), *_problems(openapi), *_types(openapi)])
        + "\n"
    )


def main() -> None:
    PAGE.write_text(page(document(app.app.routes, __version__)))


def _subjects(openapi: Schema) -> Iterator[str]:
    """The operations by subject, in the order in which their examples can be run."""
    example_order = {example.operation: position for position, example in reversed(list(enumerate(EXAMPLES)))}
    operations = [
        (example_order.get(operation["operationId"], len(EXAMPLES)), path, method, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]
    descriptions = {tag["name"]: tag["description"] for tag in openapi["tags"]}
    subject = ""
    first_place: dict[str, int] = {}
    for place, _, _, operation in operations:
        tag = operation["tags"][0]
        first_place[tag] = min(place, first_place.get(tag, place))
    for _, path, method, operation in sorted(
        operations, key=lambda entry: (first_place[entry[3]["tags"][0]], entry[3]["tags"][0], entry[0])
    ):
        if operation["tags"][0] != subject:
            subject = operation["tags"][0]
            yield f"## {subject[0].upper()}{subject[1:]}\n\n{descriptions[subject]}\n"
        yield from _operation(method.upper(), path, operation)


def _operation(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield f"### `{method} {path}`\n\n{operation['summary']}.\n"
    if operation.get("description"):
        yield f"{operation['description']}\n"
    if "parameters" in operation:
        yield from ("| parameter | in | type | meaning |", "|---|---|---|---|")
        yield from map(_parameter, operation["parameters"])
        yield ""
    if "requestBody" in operation:
        (content,) = operation["requestBody"]["content"].values()
        schema = content["schema"]
        yield f"Body{'' if operation['requestBody']['required'] else ', if any'}: {_body(schema)}.\n"
    yield from ("| response | |", "|---|---|")
    yield from (_answer(status, answer) for status, answer in operation["responses"].items() if "content" in answer)
    refused = [status for status, answer in operation["responses"].items() if "$ref" in answer]
    yield f"| [problems](#problems) | {', '.join(refused)} |\n"
    for example in examples_of(operation["operationId"])[:1]:
        shell = "sh" if example.status < 400 else "bash"  # the documentation tests do not run bash blocks
        yield f"```{shell}\n{_curl(method, path, operation, example)}\n```\n"


def _parameter(parameter: Schema) -> str:
    name = f"`{parameter['name']}`" + (" (required)" if parameter["required"] else "")
    cells = (name, parameter["in"], describe_schema(parameter["schema"]), parameter["description"])
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _body(schema: Schema) -> str:
    if "anyOf" not in schema:
        return describe_schema(schema)
    return f'{describe_schema(schema["anyOf"][0])}, or `{{"events": […], "condition": …}}` with several'


def _answer(status: str, answer: Schema) -> str:
    contents = [f"`{media_type}`: {_content(content)}" for media_type, content in answer["content"].items()]
    return f"| {status} | {'<br>'.join(contents)} |"


def _content(content: Schema) -> str:
    schema = content["schema"]
    sse_events = [variant["properties"] for variant in schema.get("oneOf", ()) if "properties" in variant]
    if sse_events:
        return f"events {', '.join(_sse_event(event) for event in sse_events if 'data' in event)}"
    return (
        f"lines, each {describe_schema(schema)}"
        if schema.get("description") == "Each line."
        else describe_schema(schema)
    )


def _sse_event(properties: Schema) -> str:
    data = describe_schema(properties["data"]["contentSchema"])
    name = properties["event"]["const"]
    return data if name == UNNAMED else f"`{name}`: {data}"


def _curl(method: str, path: str, operation: Schema, example: Example) -> str:
    """The example as a curl command."""
    for name, value in example.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe="/,*"))
    query = f"?{urlencode(example.query, doseq=True, safe='/*:')}" if example.query else ""
    is_stream = example.headers.get("Accept") == "text/event-stream"
    parts = ["curl -sN" if is_stream else "curl -s", *(["--max-time 1"] if example.is_endless else [])]
    if method == "HEAD":
        parts.append("-I")
    elif method not in ("GET", "POST") or (method == "POST" and example.body is None):
        parts.append(f"-X {method}")
    parts.append(f'"$ANNALS{path}{query}"')
    if operation["security"]:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    parts += [f"-H '{name}: {value}'" for name, value in example.headers.items()]
    if isinstance(example.body, str):
        parts.append(f"--data-raw '{example.body}'")
    elif example.body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(example.body)}'"]
    return " ".join([*parts, *(["|| true"] if example.is_endless else [])])


def _problems(openapi: Schema) -> Iterator[str]:
    yield f"## Problems\n\nAll are `application/problem+json`: {type_link('Problem')}.\n"
    yield from ("| status | meaning |", "|---|---|")
    yield from (
        f"| {status} | {response['description']} |" for status, response in openapi["components"]["responses"].items()
    )
    yield ""


def _types(openapi: Schema) -> Iterator[str]:
    yield "## Types\n"
    schemas: dict[str, Any] = openapi["components"]["schemas"]
    for name, schema in schemas.items():
        yield f"### Type {name}\n"
        if schema.get("description"):
            yield f"{' '.join(schema['description'].split())}\n"
        table = fields_table(schema)
        yield "\n".join(table) + "\n" if table else f"{describe_schema(schema)}\n"


if __name__ == "__main__":
    main()
