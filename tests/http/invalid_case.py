"""An invalid request and the expected problem."""

from dataclasses import dataclass, field

API = "/jobscheduler/master/api"
FOREIGN = "{foreign}"
"""Placeholder for the number of a log that the caller may not read."""


@dataclass
class Case:
    """An invalid request, and the expected status and detail."""

    detail: str
    """A regular expression."""
    target: str
    body: object = None
    """JSON or bytes of a POST. Without a body the request is a GET."""
    status: int = 400
    headers: dict[str, str] = field(default_factory=dict)
    method: str = ""
