"""Append requests and their limits."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import Field, SerializeAsAny

from chalicelib.domain.errors import BadInput, TooLarge
from chalicelib.domain.events.event import Event, NewEvent, encode_all
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import EventId
from chalicelib.domain.model import Model
from chalicelib.domain.queries.event_filter import EitherSelection, Selection

MAX_EVENTS = 1_000
MAX_BYTES = 350 * 1024
MAX_IDEMPOTENCY_KEY_LENGTH = 256
_COMMIT_OVERHEAD = 64
"""More than the digest, the checksum, the number of events and the separators of a commit take."""
RECEIPT_TTL_S = 24 * 3600
"""How long an idempotency key is valid."""
RECEIPT_STORED_S = RECEIPT_TTL_S + 3600
"""How long an idempotency key is stored at least. Longer than it is valid, because the clocks of writers differ."""


class AppendCondition(Model):
    """Refuse the append if an event after `after` matches, so that no publisher acts on outdated knowledge."""

    fail_if_events_match: SerializeAsAny[Selection] = Field(alias="failIfEventsMatch")
    after: EventId = 0
    # Left out if absent, so that the digest of a request without it is that of earlier versions.
    after_position: EventId | None = Field(None, alias="afterPosition", exclude_if=lambda position: position is None)
    """Replaces `after`."""

    def first_match(self, events: Iterable[Event]) -> Event | None:
        """The first of `events` that violates the condition."""
        return next(
            (event for event in events if event.event_id > self.after and self.fail_if_events_match.selects(event)),
            None,
        )


def both_conditions(first: AppendCondition | None, second: AppendCondition | None) -> AppendCondition | None:
    """A condition that holds if both hold. Neither may have a position."""
    if first is None or second is None:
        return first or second
    either = EitherSelection(
        first=first.fail_if_events_match,
        first_after=first.after,
        second=second.fail_if_events_match,
        second_after=second.after,
    )
    return AppendCondition(fail_if_events_match=either, after=min(first.after, second.after))


class Append(NamedTuple):
    """A request to append events atomically."""

    server: int
    texts: tuple[str, ...]
    """The encoded events."""
    request_id: str
    condition: AppendCondition | None = None
    idempotency_key: str | None = None
    verified_head: Head | None = None
    """No event up to this head violates the condition."""
    request_digest: str = ""
    """Digest of the publisher's request, if the events to append differ from it."""
    by: str = ""
    """The subject of the publisher's token."""

    @property
    def digest(self) -> str:
        """Equal for equal requests."""
        if self.request_digest:
            return self.request_digest
        condition = self.condition.model_dump_json() if self.condition else ""
        return hashlib.sha256("\n".join((condition, *self.texts)).encode()).hexdigest()[:32]


def stored_size(append: Append) -> int:
    """An upper bound of the bytes that the commit of `append` takes in a stored item, without compression."""
    texts = sum(_utf8_size(text) + 2 for text in append.texts)
    return texts + _utf8_size(append.request_id + append.by + (append.idempotency_key or "")) + _COMMIT_OVERHEAD


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


class Receipt(NamedTuple):
    """The use of an idempotency key. A repeated request receives the same response."""

    digest: str
    session: int
    at_us: int
    """Time of the commit."""

    def is_valid(self, now_ms: int) -> bool:
        return self.at_us // 1000 >= now_ms - RECEIPT_TTL_S * 1000


IDEMPOTENCY_KEY_PATTERN = r"^[!-~](?:[ -~]{0,254}[!-~])?$"
"""Stricter than `check_idempotency_key`: HTTP removes spaces around a header's value."""


def check_event_count(events: object, max_events: int = MAX_EVENTS) -> object:
    """Return `events`. Raises `TooLarge` if there are too many, before any of them is validated."""
    if isinstance(events, list | tuple) and len(events) > max_events:
        raise TooLarge(f"{len(events)} events in one request; at most {max_events} are allowed")
    return events


def encode_within_limits(events: Sequence[NewEvent], max_events: int = MAX_EVENTS) -> tuple[str, ...]:
    """Encode each event. Raises `BadInput`, or `TooLarge` if they exceed the limits of one commit."""
    check_event_count(events, max_events)
    try:
        texts = encode_all(events)
    except ValueError as error:
        raise BadInput(str(error)) from error
    size = sum(map(len, texts)) + 2 * len(texts)
    if size > MAX_BYTES:
        raise TooLarge(f"the events have {size} bytes as JSON; at most {MAX_BYTES} are allowed in one request")
    return tuple(text.decode() for text in texts)


def check_idempotency_key(key: str) -> str:
    """Return `key`. Raises `BadInput` if it is not valid."""
    if not (0 < len(key) <= MAX_IDEMPOTENCY_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise BadInput(f"an Idempotency-Key has 1 to {MAX_IDEMPOTENCY_KEY_LENGTH} printable ASCII characters")
    return key
