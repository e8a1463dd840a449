"""Organizations: each has a log of its own, known by its server number.

The organizations themselves are events in the log of server 0: session n of that log created server n. So the
conditional write that numbers commits numbers organizations too.
"""

import re
from dataclasses import dataclass

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.queries.event_filter import Selection

DIRECTORY = 0
"""The server whose log lists the organizations."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)


def configuration_of(server: int) -> int:
    """The log that keeps how an organization's observers are configured."""
    return -2 * server


def is_configuration(server: int) -> bool:
    """Tell whether the log says how things are configured, organizations included: it is kept for ever."""
    return server <= DIRECTORY and server % 2 == 0


def inbox_of(server: int) -> int:
    """The log that keeps what an organization's users were told."""
    return -2 * server - 1


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization and the number of its log."""

    name: str
    server: int


def name_checked(name: str) -> str:
    """`name` itself, if an organization may have it."""
    if _NAME.fullmatch(name) is None:
        raise BadInput(
            "an organization's name has 1 to 63 letters, digits, '-' and '_', and begins with a letter or digit"
        )
    return name


def created(name: str) -> NewEvent:
    """The event that creates the organization."""
    return NewEvent(type=("organization", "created"), key=_key(name))


def not_yet_created(name: str) -> AppendCondition:
    """The condition under which it may be created."""
    return AppendCondition(fail_if_events_match=Selection(keys=(_key(name),)))


def name_of(key: str) -> str:
    """The organization an event of the directory is about."""
    return key.removeprefix("/organization/")


def _key(name: str) -> str:
    return f"/organization/{name}"
