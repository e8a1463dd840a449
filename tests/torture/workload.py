"""The workload: requests of several events each, some with an idempotency key, some with a condition."""

import random
from collections.abc import Callable
from typing import Any

from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.log.append import Append, AppendCondition, encoded
from chalicelib.domain.model import Model
from chalicelib.domain.queries.event_filter import Selection

SERVER = 1
THINGS = 6
WITH_KEY = 0.5
WITH_CONDITION = 0.35
FRESH = 0.7
"""How many of the conditions know where the log ends; the others know where it ended before."""
PADDINGS = (0, 0, 0, 50, 500, 3_000)
MOST_EVENTS = 6


class Request(Model):
    """A request to append events that are about one thing."""

    tag: str
    count: int
    about: str
    padding: int = 0
    idempotency_key: str | None = None
    keys: tuple[str, ...] = ()
    """With these the request has a condition: nothing about them after `after`."""
    after: int = 0

    def events(self) -> list[dict[str, Any]]:
        """The events as a publisher writes them."""
        return [
            {
                "type": ["torture", str(index)],
                "key": self.about,
                "payload": {"type": "json", "data": {"tag": self.tag, "index": index, "count": self.count} | self._pad},
            }
            for index in range(self.count)
        ]

    def body(self) -> dict[str, Any]:
        """The body of `POST /events`."""
        if not self.keys:
            return {"events": self.events()}
        return {
            "events": self.events(),
            "condition": {"failIfEventsMatch": {"keys": list(self.keys)}, "after": self.after},
        }

    def append(self, request_id: str) -> Append:
        """The request as the services know it."""
        events = [
            NewEvent(type=tuple(event["type"]), key=self.about, payload=JsonPayload(**event["payload"]))
            for event in self.events()
        ]
        condition = AppendCondition(fail_if_events_match=Selection(keys=self.keys), after=self.after)
        return Append(
            SERVER, encoded(events), request_id, condition if self.keys else None, idempotency_key=self.idempotency_key
        )

    @property
    def _pad(self) -> dict[str, str]:
        return {"padding": "x" * self.padding} if self.padding else {}


class Workload:
    """Ever new requests of one writer."""

    def __init__(self, writer: str, rng: random.Random, head: Callable[[], int]) -> None:
        self._writer = writer
        self._rng = rng
        self._head = head
        self._known = 0
        self._sent = 0

    def next(self) -> Request:
        """A request that nobody has sent before."""
        self._sent += 1
        tag = f"{self._writer}.{self._sent}"
        about, other, third = (f"/thing/{number}" for number in self._rng.sample(range(THINGS), 3))
        conditional = self._rng.random() < WITH_CONDITION
        return Request(
            tag=tag,
            count=self._rng.randint(2, MOST_EVENTS),
            about=about,
            padding=self._rng.choice(PADDINGS),
            idempotency_key=f"key of {tag}" if self._rng.random() < WITH_KEY else None,
            keys=(other, self._rng.choice((about, third))) if conditional else (),
            after=self._position() if conditional else 0,
        )

    def _position(self) -> int:
        if self._rng.random() < FRESH:
            self._known = self._head()
        return self._known
