"""The server serves the documents, and responds to the examples as they describe."""

from collections.abc import Iterator

import pytest

from chalicelib.http.openapi.example import Example
from chalicelib.http.openapi.examples import EXAMPLES
from tests.http.openapi.example_requests import send_example
from tests.http.openapi.response_checks import Document, deviations, find_operation, validator
from tests.serving import Member, run_server


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """A member with all rights in the organization that exists from the start."""
    with run_server(tmp_path_factory.mktemp("examples")) as running:
        yield running.member("local")


@pytest.fixture(scope="module")
def outcomes(local: Member, openapi_document: Document) -> list[tuple[Example, int, list[str]]]:
    """All examples, sent in order: the status of each response, and its deviations from the document."""
    return [(example, *outcome(local, openapi_document, example)) for example in EXAMPLES]


def test_served_documents_equal_generated_documents(
    local: Member, openapi_document: Document, asyncapi_document: Document
) -> None:
    for path, document in (("/openapi.json", openapi_document), ("/asyncapi.json", asyncapi_document)):
        response = local.server.client.get(path)
        assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
        assert response.json() == document


def test_examples_in_order_return_described_responses(outcomes: list[tuple[Example, int, list[str]]]) -> None:
    assert outcomes == [(example, example.status, []) for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.operation)
def test_example_matches_request_schemas(openapi_document: Document, example: Example) -> None:
    operation, _, _ = find_operation(openapi_document, example.operation)
    if example.body is not None:
        (content,) = operation["requestBody"]["content"].values()
        schema = content["schema"]
        assert list(validator(openapi_document, schema).iter_errors(example.body)) == []
    for parameter in operation.get("parameters", ()):
        values = [shown["value"] for shown in parameter.get("examples", {}).values()]
        parameter_validator = validator(openapi_document, parameter["schema"])
        assert [list(parameter_validator.iter_errors(value)) for value in values] == [[] for _ in values]


INVALID_REQUESTS = [
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


@pytest.mark.usefixtures("outcomes")
@pytest.mark.parametrize(("example", "status"), INVALID_REQUESTS, ids=lambda value: getattr(value, "operation", value))
def test_invalid_request_returns_described_problem(
    local: Member, openapi_document: Document, example: Example, status: int
) -> None:
    assert outcome(local, openapi_document, example) == (status, [])


def outcome(local: Member, document: Document, example: Example) -> tuple[int, list[str]]:
    """The status of the response, and its deviations from the document."""
    operation, _, _ = find_operation(document, example.operation)
    with send_example(local, document, example) as (response, body):
        return response.status_code, deviations(document, operation, response, body)
