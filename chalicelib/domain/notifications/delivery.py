"""Deliveries: the messages that an observer sends because of an event, and their outcomes."""

from dataclasses import dataclass, field, replace
from typing import Literal, Self

from chalicelib.domain.backoff import Backoff
from chalicelib.domain.events.ids import Id

TemplateChannel = Literal["mail", "slack", "app"]
"""A channel whose messages are rendered with templates of its own."""
Channel = Literal["mail", "slack", "app", "webhook", "apprise", "eventbridge"]

MESSAGE_PARTS: dict[TemplateChannel, tuple[str, ...]] = {
    "mail": ("subject", "text", "html"),
    "slack": ("json",),
    "app": ("subject", "body"),
}
"""The parts of a message on each channel. Each part has its own template."""

DEFAULT_RETRY_S = 24 * 3600.0
"""How long a delivery is tried before it is parked."""
MAX_WAIT_S = 13 * 24 * 3600.0
"""How long a delivery waits, for whatever reason, before it is parked. SQS deletes messages after 14 days."""
MAX_UNFINISHED_TRIES = 5
"""A delivery is parked if the worker process ended during this many consecutive tries."""
RETRY_BACKOFF = Backoff(initial_s=2.0, max_s=1800.0, factor=4.0)
MIN_RATE_LIMIT_PAUSE_S = 15.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message about an event, or about several events of a group, from one observer to one address."""

    id: str
    """`<event id>/<observer>`, followed by the address and the replay if needed. Every try has the same id."""
    server: int
    observer: str
    event: Id
    key: str
    """The event's key. Deliveries with the same observer and key are sent in order."""
    address: str = ""
    """Empty if the channel has no addresses."""
    replay: str = ""
    """The replay that created the delivery, empty if the event itself did."""
    until: int = 0
    """EventId of the last event, if the message was held to report several. 0: it was not held."""
    count: int = 1
    """Number of events that it reports."""
    samples: tuple[Id, ...] = ()
    """The first events, if it was held."""


@dataclass(frozen=True, slots=True)
class Tries:
    """The tries of a delivery, since it was put or since a user retried it."""

    count: int = 0
    since_ms: int = 0
    """Time of the first try. 0 if there was none, or if version 0.1.0 made it."""
    unfinished: int = 0
    """Number of consecutive tries without a known outcome, because the worker process ended."""

    def start(self, now_ms: int) -> Self:
        """The tries including one that starts now."""
        return replace(self, count=self.count + 1, since_ms=self.since_ms or now_ms, unfinished=self.unfinished + 1)

    def finish(self) -> Self:
        """The tries after the last one has failed."""
        return replace(self, unfinished=0)

    def withdraw(self) -> Self:
        """The tries without the last one, which does not count."""
        return replace(self, count=self.count - 1, since_ms=self.since_ms if self.count > 1 else 0, unfinished=0)


@dataclass(frozen=True, slots=True)
class Parked:
    """A delivery that is not tried any more unless a user retries it."""

    delivery: Delivery
    tries: int
    error: str
    at_ms: int
    """Time of the last try."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The channel accepted the message."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """There is no message to send."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeliveryFailed:
    """The channel did not accept the message."""

    error: str
    retry_delay_s: float | None
    """Delay before the next try. None: do not try again."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """The channel accepts no more messages for now. This does not count as a try."""

    error: str
    delay_s: float


DeliveryOutcome = Sent | Dropped | DeliveryFailed | Postponed


def retry_delay_s(
    tries: int, elapsed_s: float, retry_s: float, jitter: float, retry_after_s: float | None = None
) -> float | None:
    """Delay after `tries` failed tries, the first of them `elapsed_s` ago. None: do not try again.

    The last try is made after `retry_s`. `jitter` is a random number between 0 and 1 that halves the delay at most.
    The delay is at least `retry_after_s`.
    """
    if elapsed_s >= retry_s:
        return None
    delay_s = RETRY_BACKOFF.delay_s(tries - 1, jitter=(1 + jitter) / 2)
    return max(min(delay_s, retry_s - elapsed_s), retry_after_s or 0.0)


def rate_limit_pause_s(jitter: float, retry_after_s: float | None = None) -> float:
    """Delay if the channel limits the rate. With `jitter`, a random number, messages do not return all at once."""
    return max(MIN_RATE_LIMIT_PAUSE_S, retry_after_s or 0.0) * (1 + jitter)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to one recipient."""

    delivery: str
    """The id of the delivery."""
    sender: str
    title: str
    """The sender's display name."""
    recipient: str
    subject: str
    text: str
    html: str


@dataclass(frozen=True, slots=True)
class SlackPost:
    """A message to an incoming webhook."""

    delivery: str
    url: str
    json: str


@dataclass(frozen=True, slots=True)
class AppMessage:
    """A message to a user's inbox."""

    delivery: str
    server: int
    user: str
    observer: str
    subject: str
    body: str
    event: Id


@dataclass(frozen=True, slots=True)
class WebhookPost:
    """A CloudEvent to a webhook, signed with its secret."""

    delivery: str
    url: str = field(repr=False)
    secret: str = field(repr=False)
    json: str


@dataclass(frozen=True, slots=True)
class AppriseMessage:
    """A message to one of the services that Apprise knows."""

    delivery: str
    url: str = field(repr=False)
    """An Apprise URL. It contains the tokens of the service."""
    subject: str
    body: str
    is_failure: bool
    """Whether it is about a failure. Services that know kinds of messages show it as such."""


@dataclass(frozen=True, slots=True)
class BusEvent:
    """An event to a bus of Amazon EventBridge."""

    delivery: str
    bus: str
    """Name or ARN."""
    detail_type: str
    at_us: int
    """Time of the event."""
    json: str


Message = Mail | SlackPost | AppMessage | WebhookPost | AppriseMessage | BusEvent
