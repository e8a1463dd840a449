"""The examples of the API's description work, and their answers are as described: every field, none but those."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from chalicelib.http.openapi.example import Example
from chalicelib.http.openapi.examples import EXAMPLES
from tests.http.openapi.openapi_answers import Document, found, problems_with, validator
from tests.serving import Member, serving


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """Somebody with every right in the organization that is there from the start."""
    with serving(tmp_path_factory.mktemp("examples")) as running:
        yield running.member("local")


@pytest.fixture(scope="module")
def described(local: Member) -> Document:
    answer = local.server.client.get("/openapi.json")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    found: Document = answer.json()
    return found


@pytest.fixture(scope="module")
def answered(local: Member, described: Document) -> list[tuple[Example, int, list[str]]]:
    """The examples, sent one after the other: the status of each answer, and what about it is not as described."""
    return [(example, *outcome(local, described, example)) for example in EXAMPLES]


def test_the_examples_work_one_after_the_other_and_are_answered_as_described(
    answered: list[tuple[Example, int, list[str]]],
) -> None:
    assert answered == [(example, example.status, []) for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.operation)
def test_the_bodies_of_examples_are_as_described(described: Document, example: Example) -> None:
    operation, _, _ = found(described, example.operation)
    if example.body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert list(validator(described, schema).iter_errors(example.body)) == []
    for parameter in operation.get("parameters", ()):
        values = [one["value"] for one in parameter.get("examples", {}).values()]
        assert [list(validator(described, parameter["schema"]).iter_errors(value)) for value in values] == [
            [] for _ in values
        ]


MISTAKES = [
    (Example("post_events", body={"events": [{"type": ["a/b"]}]}), 400),
    (Example("post_events", body={"events": [], "more": 1}), 400),
    (Example("post_events", body={"events": [{"type": ["a"]}] * 1001}), 413),
    (Example("post_events", body={"events": []}, headers={"Content-Type": "text/plain"}), 415),
    (Example("post_events", body={"events": [{"type": ["b"]}]}, headers={"Idempotency-Key": "deploy-4f2a"}), 422),
    (
        Example(
            "post_events",
            body={"events": [{"type": ["a"]}], "condition": {"failIfEventsMatch": {"types": ["deploy/*"]}}},
        ),
        409,
    ),
    (Example("post_events", body={"events": []}, headers={"Authorization": "Bearer x"}), 401),
    (Example("post_events", body={"events": []}, headers={"X-Organization": "else"}), 403),
    (Example("post_job_events", body={"event": "progress", "node": "n", "id": 1, "type": "t"}), 400),
    (Example("get_events", query={"limit": "0"}), 400),
    (Example("get_events", query={"unknown": "1"}), 400),
    (Example("get_objects", path={"collection": "nothing"}), 400),
    (Example("get_job", path={"number": "5"}), 404),
    (Example("push_job", path={"org": "local", "job": "none"}), 404),
    (Example("push_jobs", path={"org": "local"}, headers={"Accept": "text/html"}), 406),
    (Example("job_feed", path={"org": "local", "job": "j200"}, headers={"Accept": "text/html"}), 406),
    (Example("put_observer", path={"name": "-"}, body={"channel": "app"}), 400),
    (Example("get_observer", path={"name": "nobody"}), 404),
    (Example("get_observer", path={"name": "-"}), 404),
    (Example("put_organization", path={"org": "else"}), 403),
    (Example("get_file", path={"path": "none.js"}), 404),
]


@pytest.mark.usefixtures("answered")
@pytest.mark.parametrize(("example", "status"), MISTAKES, ids=lambda value: getattr(value, "operation", value))
def test_mistakes_are_answered_as_described(local: Member, described: Document, example: Example, status: int) -> None:
    assert outcome(local, described, example) == (status, [])


def outcome(local: Member, described: Document, example: Example) -> tuple[int, list[str]]:
    """The status of the answer, and what about it is not as described."""
    operation, method, path = found(described, example.operation)
    with asked(local, method, path, example) as answer:
        body = first_events(answer) if example.is_endless else answer.read().decode()
        return answer.status_code, problems_with(described, operation, answer, body)


def asked(local: Member, method: str, path: str, example: Example) -> Any:
    """The example's request, as its client sends it."""
    for name, value in example.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe="/,*"))
    options: dict[str, Any] = {"params": example.query, "headers": {**local.headers, **example.headers}}
    if example.body is not None:
        options["json"] = example.body
    return local.server.client.stream(method.upper(), path, **options)


def first_events(answer: httpx.Response) -> str:
    """The beginning of an answer without end, up to its second event."""
    lines: list[str] = []
    for line in answer.iter_lines():
        lines.append(line)
        if lines.count("") == 2:
            break
    return "\n".join([*lines, ""])
