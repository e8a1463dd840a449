"""Previewing: what an observer would say about an event, before it says anything; and one message to try it."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pydantic_core import from_json, to_json

from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import AppMessage, Delivery, Mail, Message, SlackPost
from chalicelib.domain.notifications.observer import Observer
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.notifications.matching import Observing
from chalicelib.services.notifications.message_builder import Messages
from chalicelib.services.notifications.registry import Observers
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

MARK = "[Test]"
"""What the subject of a message begins with that nobody has to act on."""

_REASONS = {
    "silent": "the event or its job is silent",
    "filtered": "filter does not hold",
    "nomail": "the event or its job wants no mail",
    "noslack": "the event or its job wants no Slack",
    "progress": "mail tells no progress, unless mail_progress is set",
}


@dataclass(frozen=True, slots=True)
class Preview:
    """What an observer would say about an event, and why it would not say it, if so."""

    event: Event
    why: str | None
    message: Message
    addresses: tuple[str, ...]
    """To whom, if the channel has addresses."""


class Previewing:
    """Makes messages that are not on their way yet."""

    def __init__(
        self, present: LogReader, retention: Retention, observers: Observers, observing: Observing, messages: Messages
    ) -> None:
        self._present = present
        self._retention = retention
        self._observers = observers
        self._observing = observing
        self._messages = messages

    def preview(self, server: int, observer: Observer, event_id: Id | None) -> Preview:
        """What it would say about the event, or about the latest that it is about; raises `Undeliverable`."""
        event = self._event(server, observer, event_id)
        (delivery, *_) = _deliveries(event, observer)
        dropped, message = self._messages.preview(delivery, event, observer, self._observers.of(server))
        why = self._why(event, observer) or (None if dropped is None else _REASONS[dropped])
        return Preview(event, why, message, tuple(filter(None, observer.addresses)))

    def tests(self, server: int, observer: Observer, event_id: Id | None) -> Iterator[Message]:
        """The same as messages to send, one to each address; they say that they are tests."""
        event = self._event(server, observer, event_id)
        for delivery in _deliveries(event, observer):
            yield _marked(self._messages.preview(delivery, event, observer, self._observers.of(server))[1])

    def _event(self, server: int, observer: Observer, event_id: Id | None) -> Event:
        forgotten = self._retention.forgotten(server).last
        event = self._latest(server, observer) if event_id is None else self._named(server, event_id)
        if event is None or event.event_id <= forgotten:
            meant = "that the observer is about; publish one, or name another" if event_id is None else event_id
            raise NotFound(f"there is no event {meant}")
        return event

    def _latest(self, server: int, observer: Observer) -> Event | None:
        about_it = Selection(types=observer.configuration.patterns)
        for commit in self._present.back(self._present.log.head(server), about_it):
            for event in reversed(commit.events):
                if about_it.selects(event):
                    return event
        return None

    def _named(self, server: int, event_id: Id) -> Event | None:
        commit = self._present.log.commit(server, event_id.session) if event_id.server == server else None
        return next((event for event in commit.events if event.id == event_id), None) if commit else None

    def _why(self, event: Event, observer: Observer) -> str | None:
        """Why the event is none of the observer's, if so."""
        if not observer.is_about(event.stored.type):
            return "the event's type is none of the observer's"
        if not self._observing.is_meant(event, observer):
            return f"the event is dedicated neither to the observer nor to {observer.configuration.user}"
        return None


def _deliveries(event: Event, observer: Observer) -> Iterator[Delivery]:
    """One for each address, with ids that nothing else has."""
    name = f"{event.id}/{observer.name}/test-{secrets.token_urlsafe(6)}"
    for number, address in enumerate(observer.addresses, start=1):
        yield Delivery(f"{name}/{number}", event.id.server, observer.name, event.id, event.stored.key or "", address)


def _marked(message: Message) -> Message:
    match message:
        case Mail() | AppMessage():
            return replace(message, subject=f"{MARK} {message.subject}")
        case SlackPost():
            post = from_json(message.json)
            return replace(message, json=to_json({**post, "text": f"{MARK} {post.get('text') or ''}".strip()}).decode())
