"""The consumer that matches events with observers and puts the resulting deliveries into the outbox."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from chalicelib.domain import vocabularies
from chalicelib.domain.calm.mutes import NO_MUTES, Mutes
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.observer import Observer
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.calm.decisions import CalmDecisions
from chalicelib.services.calm.deliveries import event_deliveries
from chalicelib.services.consumers.checkpoints import OBSERVE_CONSUMER
from chalicelib.services.consumers.consumer import Consumer
from chalicelib.services.notifications.registry import ObserverRegistry
from chalicelib.services.objects.snapshots import object_snapshot
from chalicelib.services.ports import Outbox
from chalicelib.services.reading.log_reader import LogReader

MAX_BATCH = 1_000
"""Deliveries per write to the outbox, plus those of one event to the addresses of one observer."""
MAX_BATCH_S = 2.0
"""Time until the deliveries found so far are written."""


class ObserverMatcher:
    """Decides which observers are notified about which events."""

    def __init__(
        self,
        observers: ObserverRegistry,
        reader: LogReader,
        outbox: Outbox,
        calm: CalmDecisions,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observers = observers
        self._reader = reader
        self._outbox = outbox
        self._calm = calm
        self._monotonic = monotonic

    @property
    def consumer(self) -> Consumer:
        return Consumer(OBSERVE_CONSUMER, self._consume)

    def deliveries(
        self, commits: Iterable[Commit], observers: Sequence[Observer], replay: str = "", mutes: Mutes = NO_MUTES
    ) -> Iterator[Delivery]:
        """Deliveries to these observers, without calm rules. `replay` is the id of the replay that requests them."""
        for event, observer in _type_matches(commits, observers):
            if self._should_notify(event, observer, replay) and not mutes.mutes(event):
                yield from event_deliveries(event, observer, replay)

    def is_addressed_to(self, event: Event, observer: Observer) -> bool:
        """Whether an event of a matching type concerns the observer."""
        return not observer.is_private or observer.is_addressed_by(self._props(event))

    def _consume(self, checkpoint: Checkpoint, commits: Sequence[Commit]) -> Iterator[Checkpoint]:
        """Put all deliveries into the outbox. Yields positions whose deliveries are in it.

        Ends early if another process has stored a decision meanwhile. The next run starts at the last position.

        Within a commit the position is `<instance>/<observer>`: the last event, and the last observer in the order of
        their names, whose deliveries are in the outbox. A commit can therefore have any number of deliveries.
        """
        configured = self._observers.load(checkpoint.head.server)
        observers = sorted(configured.observers.values(), key=lambda observer: observer.name)
        run = self._calm.start(checkpoint, configured)
        run.fold_mutes(commits)
        done = _parse_part(checkpoint)
        batch: list[Delivery] = []
        flushed_at = self._monotonic()
        for event, observer in _type_matches(commits, observers):
            if (event.id, observer.name) <= done:
                continue
            if self._should_notify(event, observer, ""):
                batch += run.deliveries(event, observer)
            if len(batch) >= MAX_BATCH or self._monotonic() - flushed_at > MAX_BATCH_S:
                self._outbox.put(batch)
                if not self._calm.store(run, checkpoint.head.session):
                    return
                commit = commits[event.id.session - commits[0].session]
                yield checkpoint.at(commit.previous_head, f"{event.id.instance}/{observer.name}")
                batch, flushed_at = [], self._monotonic()
        self._outbox.put(batch)
        if self._calm.store(run, commits[-1].session):
            yield checkpoint.at(commits[-1].head)

    def _should_notify(self, event: Event, observer: Observer, replay: str) -> bool:
        if event.event_id <= observer.since and not replay:
            return False
        return self.is_addressed_to(event, observer)

    def _props(self, event: Event) -> dict[str, Any]:
        """The event's `props`. A redirect has none, so it uses those of its job."""
        fields = event.fields
        match fields.payload:
            case {"type": "json", "data": {"props": dict(props)}}:
                return props
        if fields.type[:2] != ("job", "redirect"):
            return {}
        try:
            ref = vocabularies.affected_objects(fields)[0]
            return dict(object_snapshot(self._reader, event.id.server, ref).state_of(ref.path).get("props") or {})
        except NotFound:
            return {}


def _type_matches(commits: Iterable[Commit], observers: Sequence[Observer]) -> Iterator[tuple[Event, Observer]]:
    """Each event with each observer of its type, in this order."""
    by_type: dict[EventType, list[Observer]] = {}
    for commit in commits:
        for event in commit.events if observers else ():
            event_type = event.fields.type
            if event_type not in by_type:
                by_type[event_type] = [observer for observer in observers if observer.matches_type(event_type)]
            for observer in by_type[event_type]:
                yield event, observer


def _parse_part(checkpoint: Checkpoint) -> tuple[Id, str]:
    """The event and the name of the observer up to which deliveries are in the outbox."""
    instance, _, observer = checkpoint.part.partition("/")
    head = checkpoint.head
    return Id(head.server, head.session + 1, int(instance or 0)), observer
