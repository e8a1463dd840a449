"""What JobScheduler's clients ask for with `return=`."""

from dataclasses import dataclass
from enum import Enum

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.vocabularies.scheduler.events import patterns
from chalicelib.domain.vocabularies.scheduler.overviews import COLLECTIONS

EVENTS = "event"
"""The collection of everything that has events."""

_NAMES = {"job": "schedulerJob"}
"""What JobScheduler calls a collection that has another name here: other systems have jobs too."""


class Returned(Enum):
    """A snapshot of objects, or of their statistics, or the next change of these."""

    OVERVIEWS = "Overview"
    STATISTICS = "OrderStatistics"
    STATISTICS_CHANGED = "OrderStatisticsChanged"


@dataclass(frozen=True, slots=True)
class Events:
    """Events of these types."""

    patterns: tuple[EventType, ...]


def collection_called(name: str) -> str:
    """The collection that JobScheduler calls `name`."""
    known = (*(other for other in COLLECTIONS if other not in _NAMES.values()), *_NAMES, EVENTS)
    if name not in known:
        raise BadInput(f"there is no collection '{name[:80]}', only {', '.join(known)}")
    return _NAMES.get(name, name)


def returned(name: str, text: str | None) -> Returned | Events:
    """What `return=` means for a collection; without it, overviews, or all events."""
    if text is None:
        return Events(patterns("Event")) if name == EVENTS else Returned.OVERVIEWS
    if text == f"{name[0].upper()}{name[1:]}Overview" and name != EVENTS:
        return Returned.OVERVIEWS
    if name == "order" and text.removeprefix("Joc") in ("OrderStatistics", "OrderStatisticsChanged"):
        return Returned(text.removeprefix("Joc"))
    return Events(patterns(text))
