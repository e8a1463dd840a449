"""What a publisher asks to have written, and the limits to that."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import Field

from chalicelib.domain.errors import BadInput, TooLarge
from chalicelib.domain.events.event import Event, NewEvent, encode_all
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import EventId
from chalicelib.domain.model import Model
from chalicelib.domain.queries.event_filter import Selection

MOST_EVENTS = 1_000
MOST_BYTES = 350 * 1024
LONGEST_IDEMPOTENCY_KEY = 256
RECEIPT_S = 24 * 3600
"""How long an idempotency key is remembered."""


class AppendCondition(Model):
    """Refuse the append if an event after `after` is selected: nobody decides on what they have not seen."""

    fail_if_events_match: Selection = Field(alias="failIfEventsMatch")
    after: EventId = 0

    def first_match(self, events: Iterable[Event]) -> Event | None:
        """The first of `events` that breaks the condition."""
        return next(
            (event for event in events if event.event_id > self.after and self.fail_if_events_match.selects(event)),
            None,
        )


class Append(NamedTuple):
    """One request to write: whole, or not at all."""

    server: int
    texts: tuple[str, ...]
    """Each event's JSON, as the log will keep it."""
    request_id: str
    condition: AppendCondition | None = None
    idempotency_key: str | None = None
    checked: Head | None = None
    """Up to here nothing breaks the condition."""
    asked: str = ""
    """The digest of what the publisher asked for, if that is not what is written."""

    @property
    def digest(self) -> str:
        """Equal for equal requests."""
        if self.asked:
            return self.asked
        condition = self.condition.model_dump_json() if self.condition else ""
        return hashlib.sha256("\n".join((condition, *self.texts)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an idempotency key was used for: a repeat of the request gets the same answer."""

    server: int
    key: str
    digest: str
    session: int
    request_id: str
    expires_s: int


def refuse_many(events: object, most: int = MOST_EVENTS) -> object:
    """`events` itself, unless they are more than one request may bring; cheap, before each is looked at."""
    if isinstance(events, list | tuple) and len(events) > most:
        raise TooLarge(f"{len(events)} events in one request; at most {most} are allowed")
    return events


def encoded(events: Sequence[NewEvent], most: int = MOST_EVENTS) -> tuple[str, ...]:
    """The JSON of each event, within the limits of one commit."""
    refuse_many(events, most)
    try:
        texts = encode_all(events)
    except ValueError as failure:
        raise BadInput(str(failure)) from failure
    size = sum(map(len, texts)) + 2 * len(texts)
    if size > MOST_BYTES:
        raise TooLarge(f"the events take {size} bytes as JSON; at most {MOST_BYTES} fit in one request")
    return tuple(text.decode() for text in texts)


def idempotency_key_checked(key: str) -> str:
    """`key` itself, if it can be one."""
    if not (0 < len(key) <= LONGEST_IDEMPOTENCY_KEY and key.isascii() and key.isprintable()):
        raise BadInput(f"an Idempotency-Key has 1 to {LONGEST_IDEMPOTENCY_KEY} printable ASCII characters")
    return key
