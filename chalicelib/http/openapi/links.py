"""Links from an operation to others whose parameters come from its request or response."""

from collections.abc import Mapping
from dataclasses import dataclass

from chalicelib.domain.json_schema import JsonSchema

_OBSERVER_TARGETS = (
    "get_observer",
    "post_test",
    "post_replay",
    "get_failures",
    "get_observer_deliveries",
    "post_retry",
    "delete_observer",
)
_PUSH_JOB_TARGETS = ("push_job", "job_feed")
_POSITION_ORIGINS = ("post_events", "get_events", "get_objects", "events_latest_get", "post_job_events")


@dataclass(frozen=True, slots=True)
class Link:
    """A link from the successful responses of an operation to another operation."""

    origin: str
    target: str
    parameters: Mapping[str, str]
    """OpenAPI runtime expressions, by parameter of the target."""
    description: str


LINKS = (
    *(
        Link("put_observer", target, {"name": "$request.path.name"}, "The observer that was configured.")
        for target in _OBSERVER_TARGETS
    ),
    *(
        Link("put_expectation", target, {"name": "$request.path.name"}, "The expectation that was configured.")
        for target in ("get_expectation", "delete_expectation")
    ),
    *(
        Link(origin, "get_events", {"after": "$response.body#/eventId"}, "The events after this position.")
        for origin in _POSITION_ORIGINS
    ),
    *(
        Link(
            "push_jobs", target, {"org": "$request.path.org", "job": "$response.body#/0/id"}, "The latest of the jobs."
        )
        for target in _PUSH_JOB_TARGETS
    ),
)


def with_links(operation: JsonSchema) -> JsonSchema:
    """Add the links of `operation` to its successful responses."""
    links = {link.target: _link_object(link) for link in LINKS if link.origin == operation["operationId"]}
    for status, response in operation["responses"].items():
        if links and status.startswith("2"):
            response["links"] = links
    return operation


def _link_object(link: Link) -> JsonSchema:
    return {
        "operationId": link.target,
        "parameters": dict(link.parameters),
        "description": link.description,
    }
