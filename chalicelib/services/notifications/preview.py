"""Previews the message of an observer about an event, and builds test messages to send."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from pydantic_core import from_json, to_json

from chalicelib.domain.errors import NotFound, Undeliverable
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import (
    AppMessage,
    AppriseMessage,
    BusEvent,
    Delivery,
    Mail,
    Message,
    SlackPost,
    WebhookPost,
)
from chalicelib.domain.notifications.observer import ConfigurationState, Observer
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.notifications.matching import ObserverMatcher
from chalicelib.services.notifications.message_builder import MessageBuilder
from chalicelib.services.notifications.registry import ObserverRegistry
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

TEST_PREFIX = "[Test]"
"""Start of the subject of every test message."""

MAX_EXAMINED_EVENTS = 500
"""How many events a preview examines to find one that the observer would send."""

_REASON_TEXTS = {
    "silent": "the event or its job is marked silent",
    "filtered": "the filter does not match the event",
    "nomail": "the event or its job is marked nomail",
    "noslack": "the event or its job is marked noslack",
    "progress": "progress is mailed only if mail_progress is set",
}
"""Texts for the drop reasons of `MessageBuilder`."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The message of an observer about an event."""

    event: Event
    skip_reason: str | None
    """Why the message would not be sent, or None if it would be."""
    message: Message
    addresses: tuple[str, ...]
    """Recipients, if the channel has addresses."""


class Previewer:
    """Builds messages without putting them into the outbox."""

    def __init__(
        self,
        reader: LogReader,
        retention: Retention,
        observers: ObserverRegistry,
        matcher: ObserverMatcher,
        messages: MessageBuilder,
    ) -> None:
        self._reader = reader
        self._retention = retention
        self._observers = observers
        self._matcher = matcher
        self._messages = messages

    def preview(self, server: int, observer: Observer, event_id: Id | None) -> Preview:
        """Preview the message about this event, or about the latest event that the observer would send.

        Without one among the latest events of a matching type, the latest of them is used.

        Raises `NotFound` without such an event, and `Undeliverable` if the message cannot be rendered.
        """
        event = self._event(server, observer, event_id)
        (delivery, *_) = _test_deliveries(event, observer)
        drop_reason, message = self._messages.preview(delivery, event, observer, self._observers.load(server))
        skip_reason = self._mismatch_reason(event, observer) or (drop_reason and _REASON_TEXTS[drop_reason])
        return Preview(event, skip_reason, message, tuple(filter(None, observer.addresses)))

    def test_messages(self, server: int, observer: Observer, event_id: Id | None) -> Iterator[Message]:
        """One message per address, with a subject that marks it as a test. Raises like `preview`."""
        event = self._event(server, observer, event_id)
        for delivery in _test_deliveries(event, observer):
            yield _mark_as_test(self._messages.preview(delivery, event, observer, self._observers.load(server))[1])

    def _event(self, server: int, observer: Observer, event_id: Id | None) -> Event:
        last_expired_id = self._retention.boundary(server).event_id
        if event_id is None:
            event = self._latest_event(server, observer, last_expired_id)
        else:
            event = self._event_by_id(server, event_id)
        if event is None or event.event_id <= last_expired_id:
            if event_id is None:
                raise NotFound("there is no event of a type that the observer matches; publish one or name an event")
            raise NotFound(f"there is no event {event_id}")
        return event

    def _latest_event(self, server: int, observer: Observer, last_expired_id: int) -> Event | None:
        configured = self._observers.load(server)
        latest: Event | None = None
        for event in islice(self._matching_events(server, observer), MAX_EXAMINED_EVENTS):
            if event.event_id <= last_expired_id:
                break
            latest = latest or event
            try:
                if self._is_sent(event, observer, configured):
                    return event
            except Undeliverable:
                return event  # The preview of this event reports the failure.
        return latest

    def _matching_events(self, server: int, observer: Observer) -> Iterator[Event]:
        """The events of a matching type, newest first."""
        matching = Selection(types=observer.configuration.patterns)
        for commit in self._reader.commits_before(self._reader.log.head(server), matching):
            yield from (event for event in reversed(commit.events) if matching.selects(event))

    def _is_sent(self, event: Event, observer: Observer, configured: ConfigurationState) -> bool:
        if self._mismatch_reason(event, observer) is not None:
            return False
        return self._messages.drop_reason(event, observer, configured) is None

    def _event_by_id(self, server: int, event_id: Id) -> Event | None:
        commit = self._reader.log.commit(server, event_id.session) if event_id.server == server else None
        return next((event for event in commit.events if event.id == event_id), None) if commit else None

    def _mismatch_reason(self, event: Event, observer: Observer) -> str | None:
        if not observer.matches_type(event.fields.type):
            return "the observer does not match the type of the event"
        if not self._matcher.is_addressed_to(event, observer):
            return f"the event is addressed neither to the observer nor to {observer.configuration.user}"
        return None


def _test_deliveries(event: Event, observer: Observer) -> Iterator[Delivery]:
    """One delivery per address, with unique ids."""
    base = f"{event.id}/{observer.name}/test-{secrets.token_urlsafe(6)}"
    for number, address in enumerate(observer.addresses, start=1):
        yield Delivery(f"{base}/{number}", event.id.server, observer.name, event.id, event.fields.key or "", address)


def _mark_as_test(message: Message) -> Message:
    match message:
        case Mail() | AppMessage() | AppriseMessage():
            return replace(message, subject=f"{TEST_PREFIX} {message.subject}")
        case SlackPost():
            post = from_json(message.json)
            post["text"] = f"{TEST_PREFIX} {post.get('text') or ''}".strip()
            return replace(message, json=to_json(post).decode())
        case WebhookPost():
            body = from_json(message.json)
            body["data"]["test"] = True
            return replace(message, json=to_json(body).decode())
        case BusEvent():
            detail = {**from_json(message.json), "test": True}
            return replace(message, json=to_json(detail).decode())
