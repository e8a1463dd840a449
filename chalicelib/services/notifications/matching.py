"""Observing: the consumer that finds out who is to be told about what."""

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
from chalicelib.services.notifications.registry import Observers
from chalicelib.services.objects.snapshots import one
from chalicelib.services.ports import Outbox
from chalicelib.services.reading.log_reader import LogReader

OBSERVE = "observe"
"""The name of the consumer."""
MOST_AT_ONCE = 5_000


class Observing:
    """Matches events with observers and puts what follows in the outbox."""

    def __init__(self, observers: Observers, present: LogReader, outbox: Outbox) -> None:
        self._observers = observers
        self._present = present
        self._outbox = outbox

    @property
    def consumer(self) -> Consumer:
        """The consumer that does so with all that comes."""
        return Consumer(OBSERVE, self._observe)

    def deliveries(
        self, commits: Iterable[Commit], observers: Sequence[Observer], replay: str = ""
    ) -> Iterator[Delivery]:
        """What the observers are to be told about the commits."""
        by_type: dict[EventType, list[Observer]] = {}
        for commit in commits:
            for event in commit.events if observers else ():
                event_type = event.stored.type
                if event_type not in by_type:
                    by_type[event_type] = [one for one in observers if one.is_about(event_type)]
                for observer in by_type[event_type]:
                    if self._concerns(event, observer, replay):
                        yield from _deliveries(event, observer, replay)

    def is_meant(self, event: Event, observer: Observer) -> bool:
        """Tell whether an event of a type that the observer is about concerns it."""
        return not observer.is_private or observer.is_meant(self._props(event))

    def _observe(self, checkpoint: Checkpoint, commits: Sequence[Commit]) -> None:
        observers = tuple(self._observers.of(checkpoint.head.server).observers.values())
        waiting: list[Delivery] = []
        for delivery in self.deliveries(commits, observers):
            waiting.append(delivery)
            if len(waiting) >= MOST_AT_ONCE:
                self._outbox.put(waiting)
                waiting = []
        self._outbox.put(waiting)

    def _concerns(self, event: Event, observer: Observer, replay: str) -> bool:
        if event.event_id <= observer.since and not replay:
            return False
        return self.is_meant(event, observer)

    def _props(self, event: Event) -> dict[str, Any]:
        """What the event says of itself; a redirect says nothing, but its job does."""
        stored = event.stored
        match stored.payload:
            case {"type": "json", "data": {"props": dict(props)}}:
                return props
        if stored.type[:2] != ("job", "redirect"):
            return {}
        try:
            ref = vocabularies.objects_of(stored)[0]
            return dict(one(self._present, event.id.server, ref).one(ref.path).get("props") or {})
        except NotFound:
            return {}


def _deliveries(event: Event, observer: Observer, replay: str) -> Iterator[Delivery]:
    """One for each address; the first has no more than the event and the observer in its id."""
    base = f"{event.id}/{observer.name}" + (f"/replay-{replay}" if replay else "")
    key = event.stored.key or ""
    for number, address in enumerate(observer.addresses):
        name = base if number == 0 else f"{base}/{number + 1}"
        yield Delivery(name, event.id.server, observer.name, event.id, key, address, replay)
