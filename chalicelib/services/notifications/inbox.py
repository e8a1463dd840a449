"""The inbox: messages to users in the app, and which of them the users have read.

It is a log, so that clients can follow it like any other feed.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from pydantic_core import to_json

from chalicelib.domain.errors import BadInput, DamagedRecord, KeyReused, LogBroken
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import MAX_IDEMPOTENCY_KEY_LENGTH, Append, encode_within_limits
from chalicelib.domain.notifications.delivery import AppMessage
from chalicelib.domain.notifications.observer import MAX_USER_LENGTH
from chalicelib.domain.notifications.read_marks import (
    MESSAGE_TYPE,
    READ_TYPE,
    InboxStatus,
    ReadFold,
    read_marks_view,
)
from chalicelib.domain.organizations.organization import inbox_log
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import ConditionalWrite
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

MAX_FOLD_S = 2.0
"""How long one call folds events of an inbox without a cached state. The next call continues."""


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

    The state of the fold over the user's events is cached in a record. Each call folds the events after it.
    """

    def __init__(
        self,
        reader: LogReader,
        retention: Retention,
        publisher: Publisher,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._retention = retention
        self._publisher = publisher
        self._monotonic = monotonic

    def status(self, server: int, user: str) -> InboxStatus:
        """What the user has read. Without a cached state, a large inbox is folded in several calls."""
        log, selection = inbox_log(server), _user_events(user, MESSAGE_TYPE, READ_TYPE)
        try:
            stored = self._load(log, user)
            folded = self._fold_new_events(stored, selection)
        except (DamagedRecord, LogBroken):
            # The record is damaged, or later than the end of a log that was restored from a backup.
            self._reader.views.delete(read_marks_view(log), [user])
            stored = ReadFold(self._retention.boundary(log).head)
            folded = self._fold_new_events(stored, selection)
        if folded.is_worth_storing_after(stored):
            record = folded.to_record(read_marks_view(log), user)
            # If another process has stored its state meanwhile, that one stays.
            self._reader.views.put([ConditionalWrite(record, stored.record_version)])
        return folded.status(self._retention.boundary(log).event_id)

    def mark(self, server: int, user: str, event_id: int, by: str = "") -> InboxStatus:
        """Mark all messages up to `event_id` as read. Marks never move back. `by` is the subject of the token."""
        log = inbox_log(server)
        status = self.status(server, user)
        last_event_id = self._reader.log.head(log).last_event_id
        if event_id > last_event_id:
            raise BadInput(f"eventId {event_id} is beyond the end of the inbox: the last one is {last_event_id}")
        if event_id <= status.read_up_to:
            return status
        payload = JsonPayload(type="json", data={"eventId": event_id})
        event = NewEvent(type=READ_TYPE, key=_user_key(user), payload=payload)
        self._publisher.publish(log, [event], by=by)
        return self.status(server, user)

    def _load(self, log: int, user: str) -> ReadFold:
        record = self._reader.views.get(read_marks_view(log), [user]).get(user)
        fold = ReadFold(Head(log)) if record is None else ReadFold.from_record(log, record)
        if fold.head.session > self._reader.log.head(log).session:
            raise LogBroken(f"log {log} ends before session {fold.head.session}")
        boundary = self._retention.boundary(log).head
        return fold if fold.head.session >= boundary.session else replace(fold, head=boundary)

    def _fold_new_events(self, fold: ReadFold, selection: Selection) -> ReadFold:
        deadline = self._monotonic() + MAX_FOLD_S
        run = self._reader.commits_after(fold.head, selection)
        for commit in run.commits:
            for event in commit.find_events(selection.candidates):
                fold = fold.fold(event) if selection.selects(event) else fold
            fold = replace(fold, head=commit.head)
            if self._monotonic() > deadline:
                return fold
        return fold if fold.head.session >= run.complete_to.session else replace(fold, head=run.complete_to)


@dataclass(frozen=True, slots=True)
class MessageFormatter:
    """Formats messages as clients receive them. Equal formatters share the pages of the reader's cache."""

    read_up_to: int

    def __call__(self, event: Event) -> str:
        members = {"eventId": event.event_id, "read": event.event_id <= self.read_up_to}
        return to_json({**members, **event.fields.payload["data"]}).decode()


def user_messages(user: str) -> Selection:
    """Selects the messages of a user."""
    return _user_events(user, MESSAGE_TYPE)


def _user_events(user: str, *types: EventType) -> Selection:
    if len(user) > MAX_USER_LENGTH:
        raise BadInput(f"a user name may have at most {MAX_USER_LENGTH} characters")
    return Selection(types=types, keys=(_user_key(user),))


def _user_key(user: str) -> str:
    return f"/users/{user}"
