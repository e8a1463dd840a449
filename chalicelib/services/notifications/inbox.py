"""The inbox: messages to users in the app, and which of them the users have read.

It is a log, so that clients can follow it like any other feed.
"""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile

from pydantic_core import to_json

from chalicelib.domain.errors import BadInput, ConditionFailed, KeyReused
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.log.append import MAX_IDEMPOTENCY_KEY_LENGTH, Append, AppendCondition, encode_within_limits
from chalicelib.domain.notifications.delivery import AppMessage
from chalicelib.domain.notifications.observer import MAX_USER_LENGTH
from chalicelib.domain.notifications.read_marks import MAX_UNREAD, MESSAGE_TYPE, READ_TYPE, InboxStatus
from chalicelib.domain.organizations.organization import inbox_log
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention


class Inbox:
    """Writes messages. Each delivery is written once, no matter how often it is attempted."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    def put(self, message: AppMessage) -> None:
        data = {
            "observer": message.observer,
            "subject": message.subject,
            "body": message.body,
            "event": message.event._asdict(),
        }
        event = NewEvent(type=MESSAGE_TYPE, key=_user_key(message.user), payload=JsonPayload(type="json", data=data))
        key = message.delivery
        if len(key) > MAX_IDEMPOTENCY_KEY_LENGTH or not key.isascii():
            key = hashlib.sha256(key.encode()).hexdigest()
        events = encode_within_limits([event])
        append = Append(inbox_log(message.server), events, secrets.token_urlsafe(9), idempotency_key=key)
        # An earlier attempt wrote the message with another text, because the template was edited in between.
        with suppress(KeyReused):
            self._appender.append(append)


class ReadMarks:
    """Marks messages as read with `inbox/read` events, and counts the unread ones. Threads may share it.

    The marks of a user have a key of their own, so the last one is found with the index of keys.
    """

    def __init__(self, reader: LogReader, retention: Retention, publisher: Publisher) -> None:
        self._reader = reader
        self._retention = retention
        self._publisher = publisher

    def read_up_to(self, server: int, user: str) -> int:
        """EventId up to which the user has marked messages as read. 0: nothing."""
        return self._last_mark(server, user)[1]

    def status(self, server: int, user: str) -> InboxStatus:
        log, read_up_to = inbox_log(server), self.read_up_to(server, user)
        last_read = max(read_up_to, self._retention.boundary(log).event_id)
        messages = (event.event_id for event in self._newest_events(log, user_messages(user)))
        unread = sum(1 for _ in islice(takewhile(lambda message: message > last_read, messages), MAX_UNREAD + 1))
        return InboxStatus(read_up_to, min(unread, MAX_UNREAD), unread > MAX_UNREAD)

    def mark(self, server: int, user: str, event_id: int, by: str = "") -> InboxStatus:
        """Mark all messages up to `event_id` as read. Marks never move back. `by` is the subject of the token."""
        log = inbox_log(server)
        last_event_id = self._reader.log.head(log).last_event_id
        if event_id > last_event_id:
            raise BadInput(f"eventId {event_id} is beyond the end of the inbox: the last one is {last_event_id}")
        payload = JsonPayload(type="json", data={"eventId": event_id})
        event = NewEvent(type=READ_TYPE, key=_mark_key(user), payload=payload)
        while True:
            last_mark, read_up_to = self._last_mark(server, user)
            if event_id <= read_up_to:
                return self.status(server, user)
            # Refused if another request has marked messages meanwhile: the last mark must be the greatest.
            condition = AppendCondition(fail_if_events_match=_marks(user), after=last_mark)
            with suppress(ConditionFailed):
                self._publisher.publish(log, [event], condition, by=by)
                return self.status(server, user)

    def _last_mark(self, server: int, user: str) -> tuple[int, int]:
        """The EventId of the last mark, and that up to which it marks messages. Zeros if there is none."""
        mark = next(self._newest_events(inbox_log(server), _marks(user)), None)
        return (0, 0) if mark is None else (mark.event_id, mark.fields.payload["data"]["eventId"])

    def _newest_events(self, log: int, selection: Selection) -> Iterator[Event]:
        """The selected events, the newest first."""
        for commit in self._reader.commits_before(self._reader.log.head(log), selection):
            yield from (event for event in reversed(commit.events) if selection.selects(event))


@dataclass(frozen=True, slots=True)
class MessageFormatter:
    """Formats messages as clients receive them. Equal formatters share the pages of the reader's cache."""

    read_up_to: int

    def __call__(self, event: Event) -> str:
        members = {"eventId": event.event_id, "read": event.event_id <= self.read_up_to}
        return to_json({**members, **event.fields.payload["data"]}).decode()


def user_messages(user: str) -> Selection:
    """Selects the messages of a user."""
    if len(user) > MAX_USER_LENGTH:
        raise BadInput(f"a user name may have at most {MAX_USER_LENGTH} characters")
    return Selection(types=(MESSAGE_TYPE,), keys=(_user_key(user),))


def _marks(user: str) -> Selection:
    """Selects the read marks of a user."""
    if len(user) > MAX_USER_LENGTH:
        raise BadInput(f"a user name may have at most {MAX_USER_LENGTH} characters")
    return Selection(types=(READ_TYPE,), keys=(_mark_key(user),))


def _mark_key(user: str) -> str:
    return f"{_user_key(user)}/read"


def _user_key(user: str) -> str:
    return f"/users/{user}"
