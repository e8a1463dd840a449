"""Links: with which operation one can go on after another, and what it takes from that one's request or answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chalicelib.http.openapi.named_schemas import Schema

_OF_OBSERVERS = ("get_observer", "post_test", "post_replay", "get_failures", "post_retry", "delete_observer")
_TO_PUSH_JOBS = ("push_job", "job_feed")
_WITH_POSITION = ("post_events", "get_events", "get_objects", "events_latest_get", "post_job_events")


@dataclass(frozen=True, slots=True)
class Link:
    """From the good answers of an operation to another operation."""

    origin: str
    target: str
    parameters: Mapping[str, str]
    """Runtime expressions of OpenAPI, by parameter of the target."""
    description: str


LINKS = (
    *(
        Link("put_observer", target, {"name": "$request.path.name"}, "The observer that was configured.")
        for target in _OF_OBSERVERS
    ),
    *(
        Link(origin, "get_events", {"after": "$response.body#/eventId"}, "What came after that, or comes next.")
        for origin in _WITH_POSITION
    ),
    *(
        Link(
            "push_jobs", target, {"org": "$request.path.org", "job": "$response.body#/0/id"}, "The latest of the jobs."
        )
        for target in _TO_PUSH_JOBS
    ),
)


def with_links(operation: Schema) -> Schema:
    """The operation, its good answers with their links."""
    links = {link.target: _described(link) for link in _of(operation["operationId"])}
    for status, answer in operation["responses"].items():
        if links and status.startswith("2"):
            answer["links"] = links
    return operation


def _of(operation: str) -> Iterator[Link]:
    return (link for link in LINKS if link.origin == operation)


def _described(link: Link) -> Schema:
    return {
        "operationId": link.target,
        "parameters": dict(link.parameters),
        "description": link.description,
    }
