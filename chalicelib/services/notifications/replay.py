"""Replay: an observer is notified again about past events.

A replay runs in parts of limited size, so that the caller can show progress, stop and resume.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.observer import Observer
from chalicelib.services.notifications.matching import ObserverMatcher
from chalicelib.services.ports import Outbox
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

MAX_PART_S = 5.0
MAX_PART_DELIVERIES = 2_000


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """The state of a replay after one part."""

    replay: str
    event_id: int
    """Everything up to this event is in the outbox. The next part starts after it."""
    until: int
    deliveries: int
    """Number of deliveries in this part."""

    @property
    def is_done(self) -> bool:
        return self.event_id >= self.until


@dataclass(frozen=True, slots=True)
class Replayer:
    """Puts deliveries for past events into the outbox. Their ids contain the id of the replay."""

    reader: LogReader
    retention: Retention
    matcher: ObserverMatcher
    outbox: Outbox
    monotonic: Callable[[], float] = time.monotonic

    def run(
        self, server: int, observer: Observer, after: int, until: int | None, replay: str, *, is_dry_run: bool = False
    ) -> ReplayProgress:
        """Replay one part of the events after `after`, up to `until` or the current end of the log.

        A dry run counts the deliveries and sends nothing. The count includes events that the filter will drop.
        """
        deadline = self.monotonic() + MAX_PART_S
        boundary = self.retention.boundary(server)
        end = min(2**53 if until is None else until, self.reader.log.head(server).last_event_id)
        after = max(min(after, end), boundary.event_id)
        event_id, batch = after, list[Delivery]()
        for commit in self.reader.tail(self.reader.position_at(server, after)):
            if commit.at_us > end:
                event_id = end
                break
            for delivery in self.matcher.deliveries([commit], [observer], replay):
                delivery_event_id = commit.at_us + delivery.event.instance - 1
                # A part ends between two events. One commit can have more deliveries than fit into a part.
                if delivery_event_id > end or (len(batch) >= MAX_PART_DELIVERIES and delivery_event_id > event_id):
                    break
                if delivery_event_id > after:
                    batch.append(delivery)
                    event_id = delivery_event_id
            else:
                event_id = min(commit.last_event_id, end)
            if len(batch) >= MAX_PART_DELIVERIES or self.monotonic() > deadline:
                break
        else:
            event_id = max(event_id, end)
        if not is_dry_run:
            self.outbox.put(batch)
        return ReplayProgress(replay, event_id, end, len(batch))
