"""The states of deliveries on a queue, stored as view records.

Each delivery has a record of its state, so that a repeated message is ignored. These records are also the history of
an observer: their items sort by event. So the history costs no writes. It costs one read unit per delivery, because the
state may be stored under the name that version 0.1.0 used, which is the id of the delivery. Such records sort before
all others, and keep their name.

A delivery that was ever parked has a second record in a view that lists the parked ones. The version of that record is
odd while the delivery is parked, and even after it was retried or finished. The records of a delivery expire, except
while it is parked.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal, Protocol

from pydantic_core import from_json, to_json

from chalicelib.adapters.mail.message import Clock, now_ms
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, Parked, Tries
from chalicelib.domain.notifications.delivery_message import DeliveryMessage, DeliveryState
from chalicelib.domain.notifications.delivery_record import DeliveryRecord, DeliveryStatus
from chalicelib.domain.views.record import MAX_CHARACTER, ConditionalWrite, Record

MAX_COUNTED = 1_000
"""Counting stops here, because it reads every record."""
MAX_ITEM_BYTES = 1_024
MAX_ERROR_CHARS = 500
"""Maximum length of an error or a reason in the state of a delivery. A write of up to 1 KB costs one unit."""
RECORD_TTL_S = 14 * 24 * 3600
"""How long a record is kept after its last change. The queue keeps messages as long, so no repeat outlives it."""


_ITEM_MARK = "e"
"""Start of all items but those of version 0.1.0, which start with a digit."""


class RecordStore(Protocol):
    """The part of the `Views` port that is used here. Reads are strongly consistent."""

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """Existing records, by item."""

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        """Records with `start <= item < end`, ordered by the bytes of their items."""

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        """Apply each change independently. Return those refused because the stored record has changed meanwhile."""


class DeliveryStates:
    """Stores the states of the deliveries of all servers."""

    def __init__(self, records: RecordStore, clock: Clock = now_ms) -> None:
        self._records = records
        self._clock = clock

    def parked(self, server: int, observer: str, after: str, limit: int) -> list[Parked]:
        """Deliveries that are no longer retried, ordered by id, with ids greater than `after`."""
        records = self._records.range(_parked_view(server, observer), after, MAX_CHARACTER)
        listed = (record for record in records if _is_parked(record) and record.item != after)
        return [_parse_parked(record) for record in islice(listed, limit)]

    def counts(self, server: int, observer: str) -> dict[str, int]:
        """Numbers of deliveries by state, up to `MAX_COUNTED`.

        `waiting` is -1 for unknown, because a queue does not count messages per observer.
        """
        records = islice(self._records.range(_state_view(server, observer), "", MAX_CHARACTER), MAX_COUNTED)
        states = Counter(_parse_state(record).state for record in records)
        parked_view = self._records.range(_parked_view(server, observer), "", MAX_CHARACTER)
        parked = islice((record for record in parked_view if _is_parked(record)), MAX_COUNTED)
        return {
            "waiting": -1,
            "parked": sum(1 for _ in parked),
            "sent": states["sent"],
            "dropped": states["dropped"],
        }

    def history(
        self, server: int, observer: str, before: str, limit: int, event: Id | None = None
    ) -> list[DeliveryRecord]:
        """Deliveries of an observer that were attempted, those about the newest events first.

        `before` is the cursor of the last record of the previous page, or empty. Records of version 0.1.0 come last and
        are not found by their event. A delivery that waits in the queue has no record before its first failed attempt.
        """
        if len(before.encode()) > MAX_ITEM_BYTES:
            raise BadInput("cursor: it is not the cursor of a page")
        start, end = (
            ("", MAX_CHARACTER) if event is None else (_event_prefix(event), _event_prefix(event) + MAX_CHARACTER)
        )
        end = min(before, end) if before else end
        records = self._records.range(_state_view(server, observer), start, end, backwards=True)
        return [_parse_history(record, observer) for record in islice(records, limit)]

    def state(self, message: DeliveryMessage) -> DeliveryState:
        delivery = message.delivery
        item = _state_item(delivery)
        found = self._records.get(_state_view(delivery.server, delivery.observer), [item, delivery.id])
        record = found.get(item) or found.get(delivery.id)
        return DeliveryState() if record is None else _parse_state(record)

    def record_attempt(
        self, message: DeliveryMessage, tries: Tries, seen: DeliveryState, error: str = ""
    ) -> DeliveryState:
        """Store the tries and return the stored state. `seen` is the state that the caller has read."""
        retry = message.retry
        return self._update(
            message, seen, lambda now: None if now.is_obsolete(retry) else now.after_attempt(retry, tries, _cut(error))
        )

    def record_done(
        self, message: DeliveryMessage, state: Literal["sent", "dropped"], seen: DeliveryState, reason: str = ""
    ) -> None:
        now = self._update(message, seen, lambda now: None if now.is_done else now.after_outcome(state, _cut(reason)))
        if now.version > 1:
            # Another worker may have parked it while this attempt was under way.
            self._unlist(message.delivery)

    def park(self, message: DeliveryMessage, tries: Tries, error: str, seen: DeliveryState) -> None:
        """List the delivery as failed and stop attempting it."""
        self._list(message, Parked(message.delivery, tries.count, error, self._clock()))
        retry = message.retry
        now = self._update(
            message, seen, lambda now: None if now.is_obsolete(retry) else now.after_parking(retry, tries, _cut(error))
        )
        if now.is_done:
            self._unlist(message.delivery)

    def parked_messages(self, server: int, observer: str, ids: Sequence[str]) -> dict[str, DeliveryMessage]:
        """New messages that retry those of the deliveries that are parked, by delivery id."""
        valid_ids = [delivery_id for delivery_id in ids if delivery_id and len(delivery_id.encode()) <= MAX_ITEM_BYTES]
        records = self._records.get(_parked_view(server, observer), valid_ids)
        return {
            item: DeliveryMessage(_parse_parked(record).delivery, _retry_number(record) + 1)
            for item, record in records.items()
            if _is_parked(record)
        }

    def mark_retried(self, message: DeliveryMessage) -> bool:
        """Remove the delivery from the list of parked ones. Returns False if another caller already did."""
        return self._unlist(message.delivery, message.retry - 1)

    def _update(
        self, message: DeliveryMessage, seen: DeliveryState, change: Callable[[DeliveryState], DeliveryState | None]
    ) -> DeliveryState:
        """Apply `change` to the current state until the write succeeds or `change` returns None."""
        while (changed := change(seen)) is not None:
            record = _state_record(message.delivery, changed, self._clock())
            expires_s = None if changed.state == "parked" else self._expiry_s()
            if not self._records.put([ConditionalWrite(record, seen.version or None, expires_s)]):
                return changed
            seen = self.state(message)
        return seen

    def _list(self, message: DeliveryMessage, parked: Parked) -> None:
        delivery, version = message.delivery, 2 * message.retry + 1
        view = _parked_view(delivery.server, delivery.observer)
        text = DeliveryMessage(delivery).text
        data = {"tries": parked.tries, "error": parked.error, "at": parked.at_ms, "delivery": text}
        record = Record(view, delivery.id, version, to_json(data).decode())
        stored = self._records.get(view, [delivery.id]).get(delivery.id)
        if stored is None or stored.version < version:
            self._records.put([ConditionalWrite(record, None if stored is None else stored.version)])

    def _unlist(self, delivery: Delivery, retry: int | None = None) -> bool:
        """Mark the delivery as not parked, if it was parked in this retry (or in any). Returns whether it changed."""
        view = _parked_view(delivery.server, delivery.observer)
        stored = self._records.get(view, [delivery.id]).get(delivery.id)
        if stored is None or not _is_parked(stored) or retry not in (None, _retry_number(stored)):
            return False
        unlisted = Record(view, stored.item, stored.version + 1, stored.data)
        return not self._records.put([ConditionalWrite(unlisted, stored.version, self._expiry_s())])

    def _expiry_s(self) -> int:
        return self._clock() // 1000 + RECORD_TTL_S


def _state_view(server: int, observer: str) -> str:
    return f"{server}/delivery/{observer}"


def _parked_view(server: int, observer: str) -> str:
    return f"{server}/parked/{observer}"


def _event_prefix(event: Id) -> str:
    """The start of the items of all deliveries about an event. They sort by event, and after the items of 0.1.0."""
    return f"{_ITEM_MARK}{event.session:016d}.{event.instance:06d}/"


def _state_item(delivery: Delivery) -> str:
    return _event_prefix(delivery.event) + delivery.id.removeprefix(f"{delivery.event}/")


def _state_record(delivery: Delivery, state: DeliveryState, now_ms: int) -> Record:
    tries = state.tries
    data: dict[str, str | int] = {"state": state.state, "retry": state.retry, "tries": tries.count, "at": now_ms}
    if state.state == "tried":
        data |= {"since": tries.since_ms, "unfinished": tries.unfinished}
    texts = {"address": delivery.address, "replay": delivery.replay, "error": state.error}
    data |= {name: text for name, text in texts.items() if text}
    view, item = _state_view(delivery.server, delivery.observer), _state_item(delivery)
    return Record(view, delivery.id if state.is_legacy else item, state.version, to_json(data).decode())


def _parse_state(record: Record) -> DeliveryState:
    data = from_json(record.data)
    # Version 0.1.0 stored neither the time of the first try nor unfinished tries.
    tries = Tries(data["tries"], data.get("since", 0), data.get("unfinished", 0))
    is_legacy = not record.item.startswith(_ITEM_MARK)
    return DeliveryState(data["state"], data["retry"], tries, record.version, data.get("error", ""), is_legacy)


def _parse_history(record: Record, observer: str) -> DeliveryRecord:
    data = from_json(record.data)
    if record.item.startswith(_ITEM_MARK):
        place, _, rest = record.item.removeprefix(_ITEM_MARK).partition("/")
        session, _, instance = place.partition(".")
        event = Id(record.server, int(session), int(instance))
        delivery_id = f"{event}/{rest}"
    else:
        delivery_id, event = record.item, Id.parse(record.item.partition("/")[0])
    status: DeliveryStatus = "waiting" if data["state"] == "tried" else data["state"]
    return DeliveryRecord(
        cursor=record.item,
        id=delivery_id,
        observer=observer,
        event=event,
        status=status,
        address=data.get("address", ""),
        replay=data.get("replay", ""),
        tries=data["tries"],
        error=data.get("error", ""),
        at_ms=data.get("at"),
    )


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 1]}…"


def _is_parked(record: Record) -> bool:
    return record.version % 2 == 1


def _retry_number(record: Record) -> int:
    return (record.version - 1) // 2


def _parse_parked(record: Record) -> Parked:
    data = from_json(record.data)
    return Parked(DeliveryMessage.parse(data["delivery"]).delivery, data["tries"], data["error"], data["at"])
