"""Replay: an observer is notified again about past events.

A replay runs in parts of limited size, so that the caller can show progress, stop and resume.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chalicelib.domain.calm.fold import CalmState
from chalicelib.domain.calm.mutes import Mutes
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.observer import Observer
from chalicelib.services.calm.decisions import CalmDecisions
from chalicelib.services.calm.replay import CalmReplay, ReplayStates, mute_history
from chalicelib.services.notifications.matching import ObserverMatcher
from chalicelib.services.notifications.registry import ObserverRegistry
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
    observers: ObserverRegistry
    calm: CalmDecisions
    monotonic: Callable[[], float] = time.monotonic

    def run(
        self, server: int, observer: Observer, after: int, until: int | None, replay: str, *, is_dry_run: bool = False
    ) -> ReplayProgress:
        """Replay one part of the events after `after`, up to `until` or the current end of the log.

        A dry run counts the deliveries and sends nothing. The count includes events that the filter will drop.
        The decisions about a calm observer are those that were made when the events happened. Messages that are held
        at the end are sent with the last part.
        """
        deadline = self.monotonic() + MAX_PART_S
        boundary = self.retention.boundary(server)
        end = min(2**53 if until is None else until, self.reader.log.head(server).last_event_id)
        after = max(min(after, end), boundary.event_id)
        mutes = mute_history(self.reader, boundary.head)
        if observer.configuration.is_calm or observer.snoozes:
            start = max(min(after, observer.since), boundary.event_id)
            fold = self._calm_fold(server, observer, replay, start, after, mutes)
            event_id, batch = self._run_calm(server, fold, after, end, deadline)
        else:
            event_id, batch = self._run_plain(server, observer, after, end, replay, mutes, deadline)
        if not is_dry_run:
            self.outbox.put(batch)
        return ReplayProgress(replay, event_id, end, len(batch))

    def _run_plain(
        self, server: int, observer: Observer, after: int, end: int, replay: str, mutes: Mutes, deadline: float
    ) -> tuple[int, list[Delivery]]:
        """The end of the part, and its deliveries."""
        event_id, batch = after, list[Delivery]()
        for commit in self.reader.tail(self.reader.position_at(server, after)):
            if commit.at_us > end:
                event_id = end
                break
            for delivery in self.matcher.deliveries([commit], [observer], replay, mutes):
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
        return event_id, batch

    def _calm_fold(
        self, server: int, observer: Observer, replay: str, start: int, after: int, mutes: Mutes
    ) -> CalmReplay:
        """The fold of the replay: where the previous part has stored it, or at `start`."""
        stored = ReplayStates(self.calm.states.progress).load(server, observer.name, replay, after)
        state, position = stored or (CalmState(), start)
        configured, passes, concerns = self.observers.load(server), self.calm.passes, self.matcher.is_addressed_to
        return CalmReplay(observer, replay, observer.calm_rule, mutes, configured, passes, concerns, state, position)

    def _run_calm(
        self, server: int, fold: CalmReplay, after: int, end: int, deadline: float
    ) -> tuple[int, list[Delivery]]:
        """The end of the part, and its deliveries. Decisions about events up to `after` are made, but not delivered."""
        batch, states = list[Delivery](), ReplayStates(self.calm.states.progress)
        for event in self._events(server, fold.position, end):
            if len(batch) >= MAX_PART_DELIVERIES or self.monotonic() > deadline:
                states.store(server, fold)
                return max(fold.position, after), batch
            deliveries = list(fold.deliveries(event))
            batch += deliveries if event.event_id > after else ()
        states.delete(server, fold.observer.name)
        return end, [*batch, *fold.rest()] if after < end else batch

    def _events(self, server: int, after: int, end: int) -> Iterator[Event]:
        """The events after one position, up to another."""
        for commit in self.reader.tail(self.reader.position_at(server, after)):
            if commit.at_us > end:
                return
            yield from (event for event in commit.events if after < event.event_id <= end)
