"""What answers look like. They are written by encoders made for speed; a test holds every example's answer to these."""

from typing import Any

from chalicelib.http.openapi.answers import (
    events,
    installation,
    jobs,
    jobscheduler,
    observers,
    people,
    previews,
    push,
    reports,
    snapshots,
)

_MODULES = (events, installation, jobs, jobscheduler, observers, people, previews, push, reports, snapshots)


class NoSuchAnswer(Exception):
    """A description names a type that nobody wrote."""


def named(name: str) -> Any:
    """The type called so."""
    found = [vars(module)[name] for module in _MODULES if name in vars(module)]
    if not found:
        raise NoSuchAnswer(f"no module of chalicelib.http.openapi.answers has a type {name}")
    return found[0]
