"""Replaying: an observer is told again, from a position on.

It goes in parts, so that it can be seen, stopped and resumed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.observer import Observer
from chalicelib.services.notifications.matching import Observing
from chalicelib.services.ports import Outbox
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

PART_S = 5.0
PART_DELIVERIES = 2_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far a replay has come."""

    replay: str
    event_id: int
    """All up to here has been put; whoever goes on does so after it."""
    until: int
    deliveries: int
    """How many were put in this part."""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left of it."""
        return self.event_id >= self.until


@dataclass(frozen=True, slots=True)
class Replaying:
    """Puts deliveries of the past in the outbox; they say that they are a replay's."""

    present: LogReader
    retention: Retention
    observing: Observing
    outbox: Outbox
    monotonic: Callable[[], float] = time.monotonic

    def run(self, server: int, observer: Observer, after: int, until: int | None, replay: str) -> Replayed:
        """One part: what comes after `after`, up to `until` or the end of the log as it is now."""
        deadline = self.monotonic() + PART_S
        forgotten = self.retention.forgotten(server)
        end = min(2**53 if until is None else until, self.present.log.head(server).last)
        after = max(min(after, end), forgotten.last)
        seen = self.present.at(server, after)
        event_id, waiting = after, list[Delivery]()
        for commit in self.present.after(seen):
            if commit.at > end:
                event_id = end
                break
            some = self.observing.deliveries([commit], [observer], replay)
            waiting += (one for one in some if after < commit.at + one.event.instance - 1 <= end)
            event_id = min(commit.last, end)
            if len(waiting) >= PART_DELIVERIES or self.monotonic() > deadline:
                break
        else:
            event_id = max(event_id, end)
        self.outbox.put(waiting)
        return Replayed(replay, event_id, end, len(waiting))
