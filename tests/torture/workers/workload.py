"""The workload: requests of several events, some with an idempotency key or a condition."""

import random
from collections.abc import Callable
from typing import Any

from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.log.append import Append, AppendCondition, encode_within_limits
from chalicelib.domain.model import Model
from chalicelib.domain.queries.event_filter import Selection

SERVER = 1
KEYS = 6
IDEMPOTENCY_KEY_SHARE = 0.5
CONDITION_SHARE = 0.35
FRESH_POSITION_SHARE = 0.7
"""Share of conditions that use the current end of the log. The others use an older position."""
PADDINGS = (0, 0, 0, 50, 500, 3_000)
MAX_EVENTS = 6


class Request(Model):
    """A request to append events with the same key."""

    tag: str
    count: int
    about: str
    padding: int = 0
    idempotency_key: str | None = None
    keys: tuple[str, ...] = ()
    """Append condition: no event with these keys after `after`."""
    after: int = 0

    def events(self) -> list[dict[str, Any]]:
        return [
            {
                "type": ["torture", str(index)],
                "key": self.about,
                "payload": {"type": "json", "data": {"tag": self.tag, "index": index, "count": self.count} | self._pad},
            }
            for index in range(self.count)
        ]

    def body(self) -> dict[str, Any]:
        if not self.keys:
            return {"events": self.events()}
        return {
            "events": self.events(),
            "condition": {"failIfEventsMatch": {"keys": list(self.keys)}, "after": self.after},
        }

    def append(self, request_id: str) -> Append:
        events = [
            NewEvent(type=tuple(event["type"]), key=self.about, payload=JsonPayload(**event["payload"]))
            for event in self.events()
        ]
        condition = AppendCondition(fail_if_events_match=Selection(keys=self.keys), after=self.after)
        return Append(
            SERVER,
            encode_within_limits(events),
            request_id,
            condition if self.keys else None,
            idempotency_key=self.idempotency_key,
        )

    @property
    def _pad(self) -> dict[str, str]:
        return {"padding": "x" * self.padding} if self.padding else {}


class Workload:
    """Generates the requests of one writer."""

    def __init__(self, writer: str, rng: random.Random, head: Callable[[], int]) -> None:
        self._writer = writer
        self._rng = rng
        self._head = head
        self._known_position = 0
        self._sent = 0

    def next(self) -> Request:
        """A new request with a unique tag."""
        self._sent += 1
        tag = f"{self._writer}.{self._sent}"
        about, other, third = (f"/thing/{number}" for number in self._rng.sample(range(KEYS), 3))
        conditional = self._rng.random() < CONDITION_SHARE
        return Request(
            tag=tag,
            count=self._rng.randint(2, MAX_EVENTS),
            about=about,
            padding=self._rng.choice(PADDINGS),
            idempotency_key=f"key of {tag}" if self._rng.random() < IDEMPOTENCY_KEY_SHARE else None,
            keys=(other, self._rng.choice((about, third))) if conditional else (),
            after=self._position() if conditional else 0,
        )

    def _position(self) -> int:
        if self._rng.random() < FRESH_POSITION_SHARE:
            self._known_position = self._head()
        return self._known_position
