"""Delivering: one try to tell what a delivery has to tell."""

import logging
from typing import Protocol

from chalicelib.domain.errors import AnnalsError, NotDelivered, Undeliverable
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import (
    AppMessage,
    Delivery,
    Dropped,
    Failed,
    Mail,
    Message,
    Outcome,
    Sent,
    SlackPost,
    pause_s,
)
from chalicelib.services.notifications.inbox import Inbox
from chalicelib.services.notifications.message_builder import Messages
from chalicelib.services.notifications.registry import Observers
from chalicelib.services.ports import Log, Measure, unmeasured

UNKNOWN = "unknown"
"""The channel, as far as measures go, of an observer that is gone, or was not to be found out about."""

_log = logging.getLogger("annals")


class Mailer(Protocol):
    """Hands mail over."""

    def send(self, mail: Mail) -> None:
        """Once it returns, the mail is on its way; raises `NotDelivered`."""


class Slack(Protocol):
    """Posts to webhooks."""

    def post(self, post: SlackPost) -> None:
        """Once it returns, Slack has it; raises `NotDelivered`."""


class Delivering:
    """Renders and sends. Whatever goes wrong is an outcome: nothing a delivery does may stop the others."""

    def __init__(
        self,
        observers: Observers,
        log: Log,
        messages: Messages,
        mailer: Mailer,
        slack: Slack,
        inbox: Inbox,
        measure: Measure = unmeasured,
    ) -> None:
        self._observers = observers
        self._log = log
        self._messages = messages
        self._mailer = mailer
        self._slack = slack
        self._inbox = inbox
        self._measure = measure

    def attempt(self, delivery: Delivery, tries: int) -> Outcome:
        """What comes of the try; `tries` counts this one too."""
        outcome = self._outcome(delivery, tries)
        channel = self._observers.channel(delivery.server, delivery.observer) or UNKNOWN
        self._measure("Deliveries", channel=channel, result=result(outcome))
        return outcome

    def channel_of(self, server: int, name: str) -> str:
        """The channel of an observer; none if it is gone."""
        observer = self._observers.of(server).observers.get(name)
        return observer.configuration.channel if observer else ""

    def send(self, message: Message) -> None:
        """Once it returns, the channel has the message; raises `NotDelivered`."""
        match message:
            case Mail():
                self._mailer.send(message)
            case SlackPost():
                self._slack.post(message)
            case AppMessage():
                self._inbox.put(message)

    def _outcome(self, delivery: Delivery, tries: int) -> Outcome:
        try:
            return self._attempt(delivery)
        except Undeliverable as failure:
            return Failed(str(failure), None)
        except NotDelivered as failure:
            return Failed(str(failure), pause_s(tries, failure.retry_after_s))
        except AnnalsError as failure:
            return Failed(f"{type(failure).__name__}: {failure}", pause_s(tries, None))
        except Exception as failure:
            _log.exception("delivery %s failed unexpectedly", delivery.id)
            return Failed(f"something went wrong here: {type(failure).__name__}", pause_s(tries, None))

    def _attempt(self, delivery: Delivery) -> Outcome:
        configured = self._observers.of(delivery.server)
        observer = configured.observers.get(delivery.observer)
        if observer is None:
            return Dropped("the observer is gone")
        event = self._event(delivery)
        if event is None:
            return Dropped("the event is no longer kept")
        if event.event_id <= observer.since and not delivery.replay:
            return Dropped("the observer of that time is gone")
        message = self._messages.message(delivery, event, observer, configured)
        if isinstance(message, Dropped):
            return message
        self.send(message)
        return Sent()

    def _event(self, delivery: Delivery) -> Event | None:
        server, session, instance = delivery.event
        commit = self._log.commit(server, session)
        return None if commit is None else commit.events[instance - 1]


def result(outcome: Outcome) -> str:
    """What came of a try, in one word for measures."""
    match outcome:
        case Sent():
            return "sent"
        case Dropped():
            return "dropped"
        case Failed(_, None):
            return "parked"
        case _:
            return "failed"
