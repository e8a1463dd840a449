"""Types of the JSON responses. Tests compare the responses, which fast encoders write, with these types."""

from typing import Any

from chalicelib.http.openapi.response_types import (
    events,
    installation,
    jobs,
    jobscheduler,
    monitoring,
    observers,
    people,
    pings,
    previews,
    push,
    reports,
    snapshots,
)

_MODULES = (
    events,
    installation,
    jobs,
    jobscheduler,
    monitoring,
    observers,
    people,
    pings,
    previews,
    push,
    reports,
    snapshots,
)


class UnknownResponseType(Exception):
    """A `@route_doc` names a type that does not exist."""


def find(name: str) -> Any:
    """The response type called `name`."""
    for module in _MODULES:
        if name in vars(module):
            return vars(module)[name]
    raise UnknownResponseType(f"no module of chalicelib.http.openapi.response_types has a type {name}")
