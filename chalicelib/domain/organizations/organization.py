"""Organizations: each has its own log, identified by a server number.

Organizations are created by events in the log of server 0: session n of that log creates server n. So the conditional
write that numbers commits also numbers organizations.
"""

import re
from dataclasses import dataclass

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.json_schema import pattern_of
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.queries.event_filter import Selection

DIRECTORY_SERVER = 0
"""The server whose log lists the organizations."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)
NAME_PATTERN = pattern_of(_NAME)


def configuration_log(server: int) -> int:
    """The log with the configuration of an organization: its observers and expectations."""
    return -2 * server


def configured_log(server: int) -> int:
    """The log of the organization that a configuration log belongs to."""
    return -server // 2


def is_configuration_log(server: int) -> bool:
    """Whether the log contains configuration, like the directory of organizations. Such logs have no retention."""
    return server <= DIRECTORY_SERVER and server % 2 == 0


def inbox_log(server: int) -> int:
    """The log with the app messages to an organization's users."""
    return -2 * server - 1


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization and the number of its log."""

    name: str
    server: int


def is_name(text: str) -> bool:
    """Whether an organization may have this name."""
    return _NAME.fullmatch(text) is not None


def check_name(name: str) -> str:
    """Return `name`. Raises `BadInput` if it is not valid."""
    if not is_name(name):
        raise BadInput(
            "an organization's name has 1 to 63 letters, digits, '-' and '_', and begins with a letter or digit"
        )
    return name


def creation_event(name: str) -> NewEvent:
    """The event that creates the organization."""
    return NewEvent(type=("organization", "created"), key=directory_key(name))


def creation_condition(name: str) -> AppendCondition:
    """Holds if the organization has not been created yet."""
    return AppendCondition(fail_if_events_match=Selection(keys=(directory_key(name),)))


def name_from_key(key: str) -> str:
    """The organization's name from the key of a directory event."""
    return key.removeprefix("/organization/")


def directory_key(name: str) -> str:
    """The key of the event that creates the organization."""
    return f"/organization/{name}"
