"""The due index: one view with the deadlines of all logs, ordered by time.

An entry is a hint that an object has to be checked. It may be outdated: the object may have ended, or its deadline may
have moved. The name of an entry contains a digest of its content, so an entry never changes. Storing it again changes
nothing, and deleting it deletes no other deadline.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from pydantic_core import from_json, to_json

from chalicelib.domain.views.record import Record

DUE_VIEW = "due"
MAX_ENTRY_DEADLINES = 200
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
END_US = 10**11 * SECOND_US
"""The year 5138. Later deadlines are not stored."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time after which an object has to be checked: `delay_us` after an event of the object."""

    name: str
    """The object, in the notation of the kind of work."""
    event_id: int
    delay_us: int

    @property
    def due_us(self) -> int:
        return self.event_id + self.delay_us


@dataclass(frozen=True, slots=True)
class DueEntry:
    """Deadlines of one log and one kind of work that fall into the same minute, the earliest first."""

    kind: str
    server: int
    deadlines: tuple[Deadline, ...]

    @classmethod
    def from_record(cls, record: Record) -> Self:
        _, kind, server, _ = record.item.split("/")
        deadlines = tuple(Deadline(*fields) for fields in from_json(record.data))
        return cls(kind, int(server), deadlines)

    def to_record(self) -> Record:
        data = to_json([(one.name, one.event_id, one.delay_us) for one in self.deadlines])
        digest = hashlib.blake2b(data, digest_size=10).hexdigest()
        item = f"{_item_prefix(self.deadlines[0].due_us)}/{self.kind}/{self.server}/{digest}"
        return Record(DUE_VIEW, item, 1, data.decode())


def due_entries(kind: str, server: int, deadlines: Iterable[Deadline]) -> list[DueEntry]:
    """Group deadlines into entries."""
    by_minute: dict[int, list[Deadline]] = {}
    for deadline in sorted(set(deadlines), key=lambda one: (one.due_us, one.name, one.event_id)):
        if deadline.due_us < END_US:
            by_minute.setdefault(deadline.due_us // MINUTE_US, []).append(deadline)
    return [
        DueEntry(kind, server, tuple(group[start : start + MAX_ENTRY_DEADLINES]))
        for group in by_minute.values()
        for start in range(0, len(group), MAX_ENTRY_DEADLINES)
    ]


def due_item_end(now_us: int) -> str:
    """The item before which all entries are stored that have a deadline before `now_us`."""
    return _item_prefix(now_us + SECOND_US)


def _item_prefix(time_us: int) -> str:
    return f"{time_us // SECOND_US:011d}"
