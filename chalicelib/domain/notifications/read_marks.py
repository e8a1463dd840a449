"""Which messages of an inbox a user has read: a fold over the messages and the `inbox/read` events of the user."""

from dataclasses import dataclass, replace
from typing import Self

from pydantic_core import from_json, to_json

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import Record

MESSAGE_TYPE: EventType = ("inbox", "message")
READ_TYPE: EventType = ("inbox", "read")

MAX_UNREAD = 100
"""How many unread messages are counted. This bounds the state of the fold."""
STORE_INTERVAL = 100
"""The state is stored after this many commits, even if none of them concerns the user."""


@dataclass(frozen=True, slots=True)
class InboxStatus:
    """What a user has read."""

    read_up_to: int
    """EventId up to which the user has marked messages as read. 0: nothing."""
    unread: int
    """Number of later messages, at most `MAX_UNREAD`."""
    has_more: bool
    """Whether there are more."""


@dataclass(frozen=True, slots=True)
class ReadFold:
    """The state of the fold after all events up to `head`."""

    head: Head
    read_up_to: int = 0
    unread: tuple[int, ...] = ()
    """EventIds of the last unread messages."""
    has_more: bool = False
    """Whether there are earlier unread messages."""
    record_version: int | None = None
    """Version of the stored record, None if there is none."""

    @classmethod
    def from_record(cls, log: int, record: Record) -> Self:
        data = from_json(record.data)
        head = Head(log, record.version, data["n"], data["last"])
        return cls(head, data["read"], tuple(data["unread"]), data["more"], record.version)

    def to_record(self, view: str, user: str) -> Record:
        head = self.head
        data = {"n": head.instance, "last": head.last_event_id}
        state = {"read": self.read_up_to, "unread": self.unread, "more": self.has_more}
        return Record(view, user, head.session, to_json({**data, **state}).decode())

    def fold(self, event: Event) -> Self:
        """The state after a message or a mark of the user. Only the head is not moved."""
        if event.fields.type == MESSAGE_TYPE:
            if event.event_id <= self.read_up_to:
                return self
            unread = (*self.unread, event.event_id)
            return replace(self, unread=unread[-MAX_UNREAD:], has_more=self.has_more or len(unread) > MAX_UNREAD)
        return self.mark(event.fields.payload["data"]["eventId"])

    def mark(self, event_id: int) -> Self:
        """The state after everything up to `event_id` was read. Marks never move back."""
        if event_id <= self.read_up_to:
            return self
        unread = tuple(message for message in self.unread if message > event_id)
        # Earlier messages are only left if the mark is before all that are known.
        return replace(self, read_up_to=event_id, unread=unread, has_more=self.has_more and len(unread) == MAX_UNREAD)

    def is_worth_storing_after(self, stored: Self) -> bool:
        """Whether to store this state in place of an earlier one. Otherwise the next read folds a little more."""
        is_changed = (self.read_up_to, self.unread) != (stored.read_up_to, stored.unread)
        return is_changed or self.head.session - stored.head.session >= STORE_INTERVAL

    def status(self, last_expired_id: int) -> InboxStatus:
        """The status without messages that have expired."""
        kept = sum(message > last_expired_id for message in self.unread)
        return InboxStatus(self.read_up_to, kept, self.has_more and kept == len(self.unread))


def read_marks_view(log: int) -> str:
    """The view with the states of the users of an inbox log. It is a cache."""
    return f"{log}/inbox"
