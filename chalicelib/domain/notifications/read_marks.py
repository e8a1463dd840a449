"""Which messages of an inbox a user has read."""

from dataclasses import dataclass

from chalicelib.domain.events.event_type import EventType

MESSAGE_TYPE: EventType = ("inbox", "message")
READ_TYPE: EventType = ("inbox", "read")

MAX_UNREAD = 100
"""How many unread messages are counted."""


@dataclass(frozen=True, slots=True)
class InboxStatus:
    """What a user has read."""

    read_up_to: int
    """EventId up to which the user has marked messages as read. 0: nothing."""
    unread: int
    """Number of later messages, at most `MAX_UNREAD`."""
    has_more: bool
    """Whether there are more."""
