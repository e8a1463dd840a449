"""The history of deliveries: who was notified of what, when, by which channel, and with which result."""

import time
from collections.abc import Callable, Collection, Sequence

from chalicelib.domain.errors import BadInput, NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery_record import DeliveryEntry, DeliveryPage, DeliveryRecord
from chalicelib.domain.notifications.observer import Observer
from chalicelib.services.notifications.history.observer_past import ObserverPast, ObserverPasts
from chalicelib.services.ports import Outbox
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

MAX_OBSERVERS_PER_PAGE = 100
"""How many observers are asked for their deliveries about one event. On AWS each takes a query."""
MAX_EVENT_READS_S = 2.0
"""How long a page reads events to name their types. On AWS it may have to read large commits."""


class DeliveryHistory:
    """Lists deliveries. Threads may share it."""

    def __init__(
        self,
        outbox: Outbox,
        reader: LogReader,
        retention: Retention,
        pasts: ObserverPasts,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox = outbox
        self._reader = reader
        self._retention = retention
        self._pasts = pasts
        self._monotonic = monotonic

    def of_observer(self, server: int, observer: Observer, cursor: str, limit: int) -> DeliveryPage:
        """The deliveries of an observer, the newest first."""
        records = self._outbox.history(server, observer.name, cursor, limit)
        next_cursor = records[-1].cursor if len(records) == limit else None
        return DeliveryPage(self._entries(server, records, [observer]), next_cursor)

    def of_event(self, event: Id, observers: Collection[Observer], cursor: str, limit: int) -> DeliveryPage:
        """The deliveries of these observers about an event, ordered by observer, the newest of each first."""
        first_name, _, inner_cursor = cursor.partition(":")
        following = sorted((one for one in observers if one.name >= first_name), key=lambda one: one.name)
        if cursor and ":" not in cursor:
            raise BadInput("cursor: it is not the cursor of a page")
        records: list[DeliveryRecord] = []
        next_cursor = None
        for number, observer in enumerate(following):
            if number == MAX_OBSERVERS_PER_PAGE or len(records) == limit:
                next_cursor = f"{observer.name}:"
                break
            before = inner_cursor if observer.name == first_name else ""
            records += self._outbox.history(event.server, observer.name, before, limit - len(records), event)
            if len(records) == limit:
                next_cursor = f"{observer.name}:{records[-1].cursor}"
                break
        return DeliveryPage(self._entries(event.server, records, observers), next_cursor)

    def find_event(self, server: int, event_id: int) -> Id:
        """The id of the event with an EventId. Raises `NotFound`."""
        before = self._reader.position_at(server, max(event_id - 1, 0))
        commit = self._reader.log.commit(server, before.session + 1)
        if commit is None or not commit.at_us <= event_id <= commit.last_event_id:
            raise NotFound(f"there is no event {event_id}")
        return Id(server, commit.session, event_id - commit.at_us + 1)

    def _entries(
        self, server: int, records: Sequence[DeliveryRecord], observers: Collection[Observer]
    ) -> list[DeliveryEntry]:
        pasts, by_name = self._pasts.load(server), {observer.name: observer for observer in observers}
        events = self._events(server, {record.event for record in records})
        entries = []
        for record in records:
            past, event = pasts.get(record.observer, ObserverPast()), events.get(record.event)
            if not _is_of_predecessor(record, event, by_name[record.observer], past):
                at_ms = None if record.status == "waiting" else record.at_ms
                entries.append(DeliveryEntry(record, past.channel_at(at_ms), event))
        return entries

    def _events(self, server: int, ids: Collection[Id]) -> dict[Id, Event]:
        """The events with these ids, without those that have expired or take too long to read."""
        deadline, last_expired_id = self._monotonic() + MAX_EVENT_READS_S, self._retention.boundary(server).event_id
        found: dict[Id, Event] = {}
        for commit in self._reader.log.commits(server, sorted({event.session for event in ids}, reverse=True)):
            for event in ids:
                if event.session == commit.session and commit.at_us + event.instance - 1 > last_expired_id:
                    found[event] = commit.events[event.instance - 1]
            if self._monotonic() > deadline:
                break
        return found


def _is_of_predecessor(record: DeliveryRecord, event: Event | None, observer: Observer, past: ObserverPast) -> bool:
    """Whether an earlier observer of the same name made the delivery. It may have belonged to another user."""
    if not past.has_predecessor:
        return False
    if event is not None and event.event_id <= observer.since and not record.replay:
        return True
    return record.at_ms is None or (record.at_ms + 1) * 1000 <= past.created
