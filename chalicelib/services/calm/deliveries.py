"""Deliveries of observers: about one event, or about several events of a group."""

from collections.abc import Iterator

from chalicelib.domain.calm.fold import Digest
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.observer import Observer


def event_deliveries(event: Event, observer: Observer, replay: str = "") -> Iterator[Delivery]:
    """One delivery per address. Their ids end in /2, /3, … from the second address on."""
    base = f"{event.id}/{observer.name}" + (f"/replay-{replay}" if replay else "")
    key = event.fields.key or ""
    for number, address in enumerate(observer.addresses, start=1):
        delivery_id = base if number == 1 else f"{base}/{number}"
        yield Delivery(delivery_id, event.id.server, observer.name, event.id, key, address, replay)


def digest_deliveries(digest: Digest, observer: Observer, replay: str = "") -> Iterator[Delivery]:
    """One delivery per address. Those of a group are sent in order."""
    base = f"{digest.first}/{observer.name}" + (f"/replay-{replay}" if replay else "") + "/digest"
    for number, address in enumerate(observer.addresses, start=1):
        yield Delivery(
            base if number == 1 else f"{base}/{number}",
            digest.first.server,
            observer.name,
            digest.first,
            digest.group,
            address,
            replay,
            digest.until,
            digest.count,
            digest.samples,
        )
