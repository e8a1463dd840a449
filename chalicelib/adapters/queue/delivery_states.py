"""What became of deliveries that a queue brings, as records: they can be written anew, but not deleted.

Each delivery has a record of where it stands, so that a message that comes again is dropped. Those that were parked
have another one, in a view of its own that is read to list them: its `to` is odd as long as the delivery is parked,
and even once it is retried or done.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal, Protocol

from pydantic_core import from_json, to_json

from chalicelib.domain.notifications.delivery import Delivery, Parked
from chalicelib.domain.notifications.delivery_message import Queued, Standing
from chalicelib.domain.views.record import END, Change, Record

MOST_COUNTED = 1_000
"""More than so many are not counted: that would read them all."""
LONGEST_ITEM_BYTES = 1_024


class Records(Protocol):
    """Where records are kept. Reads are strongly consistent."""

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """Those of the items that there are, by item."""

    def range(self, view: str, start: str, end: str) -> Iterator[Record]:
        """Records with `start <= item < end` in the order of their items' bytes."""

    def put(self, changes: Sequence[Change]) -> list[Change]:
        """Write each change by itself; return those refused because the stored record is not what it was."""


class DeliveryRecords:
    """What is remembered of the deliveries of all servers."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def parked(self, server: int, observer: str, after: str, most: int) -> list[Parked]:
        """Those that nobody tries any more, after the one with the id `after`, in order of their ids."""
        found = self._records.range(_parked_view(server, observer), after, END)
        return [_parked(record) for record in islice((one for one in found if _is_listed(one, after)), most)]

    def counts(self, server: int, observer: str) -> dict[str, int]:
        """How many are parked, and were sent or dropped, up to a limit.

        Those that wait are minus 1, not known: a queue does not tell observers apart.
        """
        known = islice(self._records.range(_view(server, observer), "", END), MOST_COUNTED)
        found = Counter(_standing(record).state for record in known)
        parked = (one for one in self._records.range(_parked_view(server, observer), "", END) if _is_listed(one))
        return {
            "waiting": -1,
            "parked": sum(1 for _ in islice(parked, MOST_COUNTED)),
            "sent": found["sent"],
            "dropped": found["dropped"],
        }

    def standing(self, queued: Queued) -> Standing:
        """What is remembered of the delivery."""
        own = queued.delivery
        found = self._records.get(_view(own.server, own.observer), [own.id]).get(own.id)
        return Standing() if found is None else _standing(found)

    def tried(self, queued: Queued, tries: int, seen: Standing) -> Standing:
        """Remember that it is being tried; `seen` is what was remembered before."""
        retry = queued.retry
        return self._change(queued, seen, lambda now: None if now.is_over(retry) else now.tried(retry, tries))

    def done(self, queued: Queued, state: Literal["sent", "dropped"], seen: Standing) -> None:
        """Remember that there is nothing to do any more."""
        now = self._change(queued, seen, lambda now: None if now.is_done else now.done(state))
        if now.version > 1:
            # Somebody may have given it up while it was still under way.
            self._unlist(queued.delivery)

    def park(self, queued: Queued, parked: Parked, seen: Standing) -> None:
        """List it, and try it no more."""
        self._list(queued, parked)
        retry, tries = queued.retry, parked.tries
        now = self._change(queued, seen, lambda now: None if now.is_over(retry) else now.parked(retry, tries))
        if now.is_done:
            self._unlist(queued.delivery)

    def to_retry(self, server: int, observer: str, ids: Sequence[str]) -> dict[str, Queued]:
        """Those of the deliveries that are parked, as they are to be queued again."""
        possible = [one for one in ids if one and len(one.encode()) <= LONGEST_ITEM_BYTES]
        found = self._records.get(_parked_view(server, observer), possible)
        return {
            item: Queued(_parked(record).delivery, _retry(record) + 1)
            for item, record in found.items()
            if _is_listed(record)
        }

    def retried(self, queued: Queued) -> bool:
        """List it no more, as it is queued again; False if somebody else was first."""
        return self._unlist(queued.delivery, queued.retry - 1)

    def _change(self, queued: Queued, seen: Standing, new: Callable[[Standing], Standing | None]) -> Standing:
        """Remember something new, unless that is None; what is remembered then."""
        while (wanted := new(seen)) is not None:
            record = _record(queued.delivery, wanted)
            if not self._records.put([Change(record, seen.version or None)]):
                return wanted
            seen = self.standing(queued)
        return seen

    def _list(self, queued: Queued, parked: Parked) -> None:
        own, to = queued.delivery, 2 * queued.retry + 1
        view = _parked_view(own.server, own.observer)
        data = {"tries": parked.tries, "error": parked.error, "at": parked.at_ms, "delivery": Queued(own).text}
        record = Record(view, own.id, to, to_json(data).decode())
        stored = self._records.get(view, [own.id]).get(own.id)
        if stored is None or stored.to < to:
            self._records.put([Change(record, None if stored is None else stored.to)])

    def _unlist(self, delivery: Delivery, retry: int | None = None) -> bool:
        """Mark it as not parked any more, if it is, since this retry or whichever; whether this call did so."""
        view = _parked_view(delivery.server, delivery.observer)
        stored = self._records.get(view, [delivery.id]).get(delivery.id)
        if stored is None or not _is_listed(stored) or retry not in (None, _retry(stored)):
            return False
        return not self._records.put([Change(Record(view, stored.item, stored.to + 1, stored.data), stored.to)])


def _view(server: int, observer: str) -> str:
    return f"{server}/delivery/{observer}"


def _parked_view(server: int, observer: str) -> str:
    return f"{server}/parked/{observer}"


def _record(own: Delivery, standing: Standing) -> Record:
    data = {"state": standing.state, "retry": standing.retry, "tries": standing.tries}
    return Record(_view(own.server, own.observer), own.id, standing.version, to_json(data).decode())


def _standing(record: Record) -> Standing:
    return Standing(**from_json(record.data), version=record.to)


def _is_listed(record: Record, after: str = "") -> bool:
    return record.to % 2 == 1 and record.item != after


def _retry(record: Record) -> int:
    return (record.to - 1) // 2


def _parked(record: Record) -> Parked:
    data = from_json(record.data)
    return Parked(Queued.parse(data["delivery"]).delivery, data["tries"], data["error"], data["at"])
