"""Every response with a list has a limit, and a way to continue: a property of the OpenAPI document."""

from collections.abc import Iterator, Mapping

import pytest

from tests.http.openapi.response_checks import Document, Schema

LIMITS = ("limit", "maxResults")
CONTINUATIONS = ("after", "before", "cursor", "lastEventId")
CAPPED = "maxResults"
"""Hat's limit. The server's own limit applies if it is lower, as in Hat, instead of an error."""

BOUNDED_OTHERWISE: Mapping[str, str] = {
    "get_job_type": "at most 200 open runs and 20 that have ended",
    "get_me": "the organizations and groups are in the token, which has at most 64 KB",
    "post_events": "the events are those of the request",
    "post_job_events": "the events are those of the request",
    "post_push_events": "the events are those of the request",
    "post_scheduler_events": "the events are those of the request",
    "get_observer": "one observer: its types are those of one request",
    "put_observer": "one observer: its types are those of the request",
    "post_snooze": "one observer: its types are those of one request",
    "post_silence": "one silence: its pattern is that of the request",
    "get_expectation": "one expectation: it has at most one open alarm of each kind",
    "put_expectation": "one expectation: it has at most one open alarm of each kind",
    "push_job": "one object, without a list of objects. Its events can be read in pages",
    "get_observer_presets": "a constant",
    "get_openapi": "a constant",
    "get_ping_keys": "an organization has at most 100 ping keys",
}
"""By operation id."""


def resolve(document: Document, schema: Schema) -> Schema:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def has_list(document: Document, schema: Schema, is_member: bool = False) -> bool:
    """Whether the value, or one of its members, may be an array."""
    schema = resolve(document, schema)
    alternatives = [one for name in ("anyOf", "oneOf", "allOf") for one in schema.get(name, ())]
    members = [] if is_member else list(schema.get("properties", {}).values())
    return (
        schema.get("type") == "array"
        or any(has_list(document, one, is_member) for one in alternatives)
        or any(has_list(document, member, is_member=True) for member in members)
    )


def returns_list(document: Document, operation: Schema) -> bool:
    contents = [
        content
        for status, response in operation["responses"].items()
        if status.startswith("2")
        for media_type, content in response.get("content", {}).items()
        if media_type == "application/json"
    ]
    return any(has_list(document, content["schema"]) for content in contents)


def inputs(document: Document, operation: Schema) -> dict[str, Schema]:
    """The schemas of the query parameters, and of the members of the body."""
    found = {one["name"]: one["schema"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return {**found, **(resolve(document, body["schema"]).get("properties", {}) if body else {})}


def maxima(schema: Schema) -> Iterator[int]:
    for one in (schema, *schema.get("anyOf", ()), *schema.get("allOf", ())):
        if "maximum" in one:
            yield one["maximum"]


def unbounded(document: Document) -> dict[str, str]:
    """The operations that return lists without a limit, without its maximum, or without a way to continue."""
    found = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            if not returns_list(document, operation):
                continue
            given = inputs(document, operation)
            limit = next((name for name in LIMITS if name in given), None)
            if limit is None:
                found[operation["operationId"]] = "no limit"
            elif limit != CAPPED and not list(maxima(given[limit])):
                found[operation["operationId"]] = "no maximum"
            elif not set(CONTINUATIONS) & given.keys():
                found[operation["operationId"]] = "cannot be continued"
    return found


def test_every_list_has_a_limit_and_can_be_continued(openapi_document: Document) -> None:
    found = unbounded(openapi_document)
    assert {name: why for name, why in found.items() if name not in BOUNDED_OTHERWISE} == {}
    assert [name for name in BOUNDED_OTHERWISE if name not in found] == []


@pytest.mark.parametrize(
    ("remove", "problem"), [("limit", "no limit"), ("after", "cannot be continued")], ids=["limit", "continuation"]
)
def test_list_without_bounds_is_found(openapi_document: Document, remove: str, problem: str) -> None:
    """The check can fail."""
    operation = openapi_document["paths"]["/health"]["get"]
    parameters = [one for one in operation["parameters"] if one["name"] != remove]
    changed = {**openapi_document, "paths": {"/health": {"get": {**operation, "parameters": parameters}}}}
    assert list(unbounded(changed).values()) == [problem]
