"""Attempts a delivery: renders its message and hands it to the channel."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from chalicelib.domain.errors import AnnalsError, NotDelivered, RateLimited, Undeliverable
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import (
    DEFAULT_RETRY_S,
    AppMessage,
    AppriseMessage,
    BusEvent,
    Channel,
    Delivery,
    DeliveryFailed,
    DeliveryOutcome,
    Dropped,
    Mail,
    Message,
    Postponed,
    Sent,
    SlackPost,
    WebhookPost,
    rate_limit_pause_s,
    retry_delay_s,
)
from chalicelib.domain.notifications.observer import ConfigurationState, Observer
from chalicelib.services.notifications.attempt import UNKNOWN_CHANNEL
from chalicelib.services.notifications.inbox import Inbox
from chalicelib.services.notifications.message_builder import MessageBuilder
from chalicelib.services.notifications.registry import ObserverRegistry
from chalicelib.services.ports import Log, Measure, ignore_metric

_log = logging.getLogger("annals")

T = TypeVar("T")


class Mailer(Protocol):
    """Sends mail."""

    def send(self, mail: Mail) -> None:
        """Return once the mail server has accepted the mail, or raise `NotDelivered`."""


class SlackClient(Protocol):
    """Posts to Slack webhooks."""

    def post(self, post: SlackPost) -> None:
        """Return once Slack has accepted the message, or raise `NotDelivered`."""


class WebhookClient(Protocol):
    """Posts to webhooks."""

    def post(self, post: WebhookPost) -> None:
        """Return once the receiver has accepted the event, or raise `NotDelivered`."""


class AppriseClient(Protocol):
    """Sends to the services that Apprise knows."""

    def send(self, message: AppriseMessage) -> None:
        """Return once the service has accepted the message, or raise `NotDelivered`."""


class EventBusClient(Protocol):
    """Puts events on buses of Amazon EventBridge."""

    def put(self, event: BusEvent) -> None:
        """Return once the bus has accepted the event, or raise `NotDelivered`."""


@dataclass(frozen=True, slots=True)
class OptionalChannels:
    """The clients of channels that not every installation has."""

    webhook: WebhookClient | None = None
    apprise: AppriseClient | None = None
    event_bus: EventBusClient | None = None


class Deliverer:
    """Renders and sends messages. Threads may share it.

    Every failure is returned as an outcome, so that a broken delivery never stops the others.
    """

    def __init__(
        self,
        observers: ObserverRegistry,
        log: Log,
        messages: MessageBuilder,
        mailer: Mailer,
        slack: SlackClient,
        inbox: Inbox,
        measure: Measure = ignore_metric,
        retry_s: float = DEFAULT_RETRY_S,
        jitter: Callable[[], float] = random.random,
        optional: OptionalChannels = OptionalChannels(),  # noqa: B008  (it is frozen)
    ) -> None:
        self._observers = observers
        self._log = log
        self._messages = messages
        self._mailer = mailer
        self._slack = slack
        self._inbox = inbox
        self._optional = optional
        self._measure = measure
        self._retry_s = retry_s
        self._jitter = jitter

    def attempt(self, delivery: Delivery, tries: int, elapsed_s: float) -> DeliveryOutcome:
        """Attempt the delivery once. `tries` includes this attempt. The first one was made `elapsed_s` ago."""
        channel: str = UNKNOWN_CHANNEL
        try:
            configured = self._observers.load(delivery.server)
            observer = configured.observers.get(delivery.observer)
            if observer is None:
                outcome: DeliveryOutcome = Dropped("the observer was deleted")
            else:
                channel = observer.configuration.channel
                outcome = self._deliver(delivery, observer, configured)
        except Exception as error:
            outcome = self._failure(delivery, error, tries, elapsed_s)
        self._measure("Deliveries", channel=channel, result=_result_label(outcome))
        return outcome

    def channel_of(self, server: int, name: str) -> str:
        """The channel of an observer, or an empty string if it was deleted."""
        observer = self._observers.load(server).observers.get(name)
        return observer.configuration.channel if observer else ""

    def send(self, message: Message) -> None:
        """Return once the channel has accepted the message, or raise `NotDelivered`."""
        match message:
            case Mail():
                self._mailer.send(message)
            case SlackPost():
                self._slack.post(message)
            case AppMessage():
                self._inbox.put(message)
            case WebhookPost():
                _available(self._optional.webhook, "webhook").post(message)
            case AppriseMessage():
                _available(self._optional.apprise, "apprise").send(message)
            case BusEvent():
                _available(self._optional.event_bus, "eventbridge").put(message)

    def _deliver(self, delivery: Delivery, observer: Observer, configured: ConfigurationState) -> DeliveryOutcome:
        event = self._event(delivery)
        if event is None:
            return Dropped("the event is no longer stored")
        if event.event_id <= observer.since and not delivery.replay:
            return Dropped("the observer was deleted and created again after this event")
        message = self._messages.build(delivery, event, observer, configured)
        if isinstance(message, Dropped):
            return message
        self.send(message)
        return Sent()

    def _event(self, delivery: Delivery) -> Event | None:
        server, session, instance = delivery.event
        commit = self._log.commit(server, session)
        return None if commit is None else commit.events[instance - 1]

    def _failure(
        self, delivery: Delivery, error: Exception, tries: int, elapsed_s: float
    ) -> DeliveryFailed | Postponed:
        jitter = self._jitter()
        delay_s = retry_delay_s(tries, elapsed_s, self._retry_s, jitter)
        match error:
            case Undeliverable():
                return DeliveryFailed(str(error), None)
            case RateLimited():
                return Postponed(str(error), rate_limit_pause_s(jitter, error.retry_after_s))
            case NotDelivered():
                delay_s = retry_delay_s(tries, elapsed_s, self._retry_s, jitter, error.retry_after_s)
                return DeliveryFailed(str(error), delay_s)
            case AnnalsError():
                return DeliveryFailed(f"{type(error).__name__}: {error}", delay_s)
            case _:
                _log.error("delivery %s failed unexpectedly", delivery.id, exc_info=error)
                return DeliveryFailed(f"unexpected error: {type(error).__name__}", delay_s)


def _available(client: T | None, channel: Channel) -> T:
    """Raises `Undeliverable` if this installation does not have the channel."""
    if client is None:
        raise Undeliverable(f"the channel '{channel}' is not available on this installation")
    return client


def _result_label(outcome: DeliveryOutcome) -> str:
    """The outcome as a value of the metric dimension `result`."""
    match outcome:
        case Sent():
            return "sent"
        case Dropped():
            return "dropped"
        case DeliveryFailed(_, None):
            return "parked"
        case Postponed():
            return "rate_limited"
        case _:
            return "failed"
