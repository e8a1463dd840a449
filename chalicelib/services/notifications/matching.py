"""The consumer that matches events with observers and puts the resulting deliveries into the outbox."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.observer import Observer
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.consumers.consumer import Consumer
from chalicelib.services.notifications.registry import ObserverRegistry
from chalicelib.services.objects.snapshots import object_snapshot
from chalicelib.services.ports import Outbox
from chalicelib.services.reading.log_reader import LogReader

OBSERVE_CONSUMER = "observe"
MAX_BATCH = 5_000
"""Deliveries per write to the outbox."""


class ObserverMatcher:
    """Decides which observers are notified about which events."""

    def __init__(self, observers: ObserverRegistry, reader: LogReader, outbox: Outbox) -> None:
        self._observers = observers
        self._reader = reader
        self._outbox = outbox

    @property
    def consumer(self) -> Consumer:
        return Consumer(OBSERVE_CONSUMER, self._consume)

    def deliveries(
        self, commits: Iterable[Commit], observers: Sequence[Observer], replay: str = ""
    ) -> Iterator[Delivery]:
        """Deliveries to these observers. `replay` is the id of the replay that requests them, if any."""
        by_type: dict[EventType, list[Observer]] = {}
        for commit in commits:
            for event in commit.events if observers else ():
                event_type = event.fields.type
                if event_type not in by_type:
                    by_type[event_type] = [observer for observer in observers if observer.matches_type(event_type)]
                for observer in by_type[event_type]:
                    if self._should_notify(event, observer, replay):
                        yield from _deliveries(event, observer, replay)

    def is_addressed_to(self, event: Event, observer: Observer) -> bool:
        """Whether an event of a matching type concerns the observer."""
        return not observer.is_private or observer.is_addressed_by(self._props(event))

    def _consume(self, checkpoint: Checkpoint, commits: Sequence[Commit]) -> None:
        observers = tuple(self._observers.load(checkpoint.head.server).observers.values())
        batch: list[Delivery] = []
        for delivery in self.deliveries(commits, observers):
            batch.append(delivery)
            if len(batch) >= MAX_BATCH:
                self._outbox.put(batch)
                batch = []
        self._outbox.put(batch)

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


def _deliveries(event: Event, observer: Observer, replay: str) -> Iterator[Delivery]:
    """One delivery per address. Their ids end in /2, /3, … from the second address on."""
    base = f"{event.id}/{observer.name}" + (f"/replay-{replay}" if replay else "")
    key = event.fields.key or ""
    for number, address in enumerate(observer.addresses, start=1):
        delivery_id = base if number == 1 else f"{base}/{number}"
        yield Delivery(delivery_id, event.id.server, observer.name, event.id, key, address, replay)
