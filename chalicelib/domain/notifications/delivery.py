"""Deliveries: what is to be told to somebody because of an event, and how that is done by each channel."""

from dataclasses import dataclass
from typing import Literal

from chalicelib.domain.events.ids import Id

Channel = Literal["mail", "slack", "app"]

PARTS: dict[Channel, tuple[str, ...]] = {
    "mail": ("subject", "text", "html"),
    "slack": ("json",),
    "app": ("subject", "body"),
}
"""What a message of each channel is made of; each part has a template of its own."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event to be told to one address by one observer. It has the same id on every try."""

    id: str
    """`<event id>/<observer>`, and more if there are several addresses or it is a replay."""
    server: int
    observer: str
    event: Id
    key: str
    """The event's key; what has the same observer and key is told in order."""
    address: str = ""
    """To whom, if the channel has addresses."""
    replay: str = ""
    """Which replay of the observer made it; empty: none, the event just came."""


@dataclass(frozen=True, slots=True)
class Parked:
    """A delivery that nobody tries any more."""

    delivery: Delivery
    tries: int
    error: str
    at_ms: int
    """When it was tried last."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The channel has taken it."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """There is nothing to be told."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """It was not taken."""

    error: str
    pause_s: float | None
    """How long to wait before the next try; None: there shall be none."""


Outcome = Sent | Dropped | Failed

TRIES = 5
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 900.0


def pause_s(tries: int, asked_s: float | None) -> float | None:
    """How long to wait after so many tries: ever longer, and as long as the channel asks for; None: no more tries."""
    if tries >= TRIES:
        return None
    return max(min(FIRST_PAUSE_S * 4.0 ** (tries - 1), LONGEST_PAUSE_S), asked_s or 0.0)


@dataclass(frozen=True, slots=True)
class Mail:
    """One message to one address."""

    delivery: str
    """The id of its delivery."""
    sender: str
    title: str
    """The sender's name, as the reader sees it."""
    recipient: str
    subject: str
    text: str
    html: str


@dataclass(frozen=True, slots=True)
class SlackPost:
    """One message to an incoming webhook."""

    delivery: str
    url: str
    json: str


@dataclass(frozen=True, slots=True)
class AppMessage:
    """One message to a user's inbox."""

    delivery: str
    server: int
    user: str
    observer: str
    subject: str
    body: str
    event: Id


Message = Mail | SlackPost | AppMessage
